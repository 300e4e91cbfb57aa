// `--fail-if`: a condition on results that makes the command fail.
//
//   METRIC OP NUMBER   any cell: "mean_ttft_ms > 500", "output_throughput < 1000", with >, >=, <,
//   <= speedup OP NUMBER  any cell against its baseline, on output throughput regression any cell
//   significantly slower than the baseline void               any run that does not count RULE any
//   finding of that rule: "CLIFF"
#pragma once

#include <optional>
#include <string>

#include "analysis/analysis.h"
#include "firesteel/status.h"

namespace firesteel {

struct FailCondition {
  enum class Kind { kMetric, kSpeedup, kRegression, kVoid, kRule };
  Kind kind = Kind::kVoid;
  Metric metric = Metric::kOutputThroughput;
  std::string comparison;  // ">", ">=", "<", "<="
  double value = 0;
  std::string rule;
};

// kInvalidArgument names the condition and what is wrong with it.
Result<FailCondition> ParseFailCondition(const std::string& text);

// One line that says which cell met it; nullopt when none did. kInvalidArgument when it cannot be
// decided: a regression or a speedup without a baseline, a metric that no cell has.
Result<std::optional<std::string>> MeetsFailCondition(const FailCondition& condition,
                                                      const Analysis& analysis);

}  // namespace firesteel
