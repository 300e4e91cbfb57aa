// What the user laid down about when to draft: by load, by batch, by length of the answer.
//
// Immutable after construction.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/scheduler.h"
#include "firesteel/engine.h"
#include "firesteel/options.h"
#include "firesteel/status.h"

namespace firesteel {

class DraftRules {
 public:
  // kInvalidArgument for a table that is none: "1-16:5,17-48:4,49-:3" has ascending ranges of
  // decoding sequences, each with the most draft tokens; what no range holds is not limited.
  static Result<DraftRules> Make(const SpeculationOptions& options);

  // Lowers max_draft in the plan. The rule that left nobody a draft, if one did.
  std::optional<DraftlessReason> Apply(StepPlan* plan) const;

 private:
  struct Range {
    int64_t first = 0, last = 0;  // decoding sequences, both included
    int32_t tokens = 0;
  };
  static Result<std::vector<Range>> ParseTable(std::string_view table);
  int32_t MostAt(int64_t decoding) const;

  std::vector<Range> ranges_;
  int32_t min_batch_ = 1;
  int32_t min_output_tokens_ = 0;
};

}  // namespace firesteel
