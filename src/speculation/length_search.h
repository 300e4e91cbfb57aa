// How many tokens of each draft to verify: the search of the DSpark scheduler (arXiv 2607.05147,
// Algorithm 1 and its asynchronous variant).
//
// With a_j the chance that tokens 1 … j of a draft are all accepted, verifying one token more is
// worth exactly a_j tokens, and a_j never grows with j. So for a given number of rows the best
// choice is the largest a over the whole batch, and it is a beginning of each draft. What remains
// is how many rows: as many as maximise tokens per second.
//
// Which search is lossless depends on how the drafts were made (docs/speculation.md). The types
// keep them apart: the whole curve may be searched only over SelectionFreeChances.
//
// Pure functions but for the scratch that LengthSearch keeps; one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/function_ref.h"
#include "speculation/confidence.h"

namespace firesteel {

// P(token j accepted | those before it accepted), j = 1 …, of each draft of a step. NaN and what is
// not above 0 end a draft; what is above 1 counts as 1.
class ConditionalChances {
 public:
  int64_t NumDrafts() const { return static_cast<int64_t>(begin_.size()) - 1; }
  std::span<const float> Of(int64_t draft) const {
    const auto d = static_cast<size_t>(draft);
    return std::span(values_).subspan(begin_[d], begin_[d + 1] - begin_[d]);
  }
  void Clear();

 protected:
  void Add(std::span<const float> conditional);

 private:
  std::vector<float> values_;
  std::vector<size_t> begin_ = {0};
};

// Chances whose use for a choice among drafts selects nothing that was sampled: of one-hot drafts,
// of drafts that share the target's noise, or known before the step's drafts were made.
class SelectionFreeChances : public ConditionalChances {
 public:
  void AddKnownBefore(ChancesKnownBefore conditional) { Add(conditional.values()); }
  // REQUIRES: the draft is one-hot, or verified by the rule kMatch.
  void AddUnsampled(PreTokenConfidence calibrated, bool one_hot, bool matched);
};

// Chances each of which was fixed before the token that it speaks of was drawn, and nothing more.
class PreTokenChances : public ConditionalChances {
 public:
  void AddPreToken(PreTokenConfidence calibrated) { Add(calibrated.values()); }
};

// What a step does whatever is verified: rows of prompts and of one anchor for each sequence that
// decodes, and the tokens that come of them for sure.
struct CertainWork {
  int64_t rows = 0;
  double tokens = 0;
};

struct LengthChoice {
  std::vector<int32_t> lengths;  // by draft
  int64_t draft_tokens = 0;      // their sum
  double tokens = 0;             // expected of the step
};

class LengthSearch {
 public:
  // Seconds of a step of that many rows; finite and above 0.
  using StepSeconds = FunctionRef<double(int64_t rows)>;

  // The lengths with the most tokens per second. Of equals the fewest rows. `turn` rotates the
  // order in which drafts with equal chances are served.
  void Best(const SelectionFreeChances& chances, const CertainWork& certain, StepSeconds seconds,
            int64_t turn, LengthChoice* choice);
  // Algorithm 1: takes candidates in order while each one raises tokens per second. Whether a token
  // is verified is decided before it is drawn.
  void Causal(const PreTokenChances& chances, const CertainWork& certain, StepSeconds seconds,
              int64_t turn, LengthChoice* choice);
  // The `count` best candidates, `count` chosen without a look at these drafts: lossless with all.
  void Top(const ConditionalChances& chances, const CertainWork& certain, int64_t count,
           int64_t turn, LengthChoice* choice);

 private:
  struct Candidate {
    uint32_t key;  // bits of the survival: larger is likelier
    int32_t draft;
    int32_t length;
  };
  void Order(const ConditionalChances& chances, int64_t turn);
  void Take(int64_t count, const ConditionalChances& chances, const CertainWork& certain,
            LengthChoice* choice) const;

  std::vector<Candidate> candidates_;  // by survival, falling
  std::vector<Candidate> swap_;
  std::vector<float> survival_;  // by draft
};

}  // namespace firesteel
