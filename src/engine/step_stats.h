// Counting a step into EngineStats, and the sums that must hold between the counters at any time.
#pragma once

#include <cstdint>
#include <span>

#include "firesteel/engine.h"
#include "firesteel/status.h"
#include "speculation/acceptance_model.h"

namespace firesteel {

struct DraftCounts {
  int64_t drafted = 0;
  int64_t invalidated_eos = 0;
  int64_t invalidated_limit = 0;
  int64_t invalidated_malformed = 0;
  int64_t trimmed = 0;
  int64_t verified = 0;
};

void Record(double value, StatHistogram* histogram);
int64_t NumObserved(const StatHistogram& histogram);

void CountDrafts(const DraftCounts& counts, EngineStats* stats);

// What the verifier made of one sequence's draft. Positions count from the anchor: the levels of a
// tree.
struct DraftRound {
  int32_t verified = 0;  // draft tokens
  int32_t depth = 0;     // positions that they reach: as many for a chain
  int32_t reached = 0;   // of these, judged: all before them were kept
  int32_t accepted = 0;  // and kept

  static DraftRound OfChain(int32_t verified, int32_t accepted);
};

// `committed`: tokens (the correction or bonus included) left after a stop cut the rest.
void CountRound(const DraftRound& round, int32_t committed, EngineStats* stats);
// The same for what one request is told; tokens drafted are counted when the draft comes.
void CountRound(const DraftRound& round, SpeculationUsage* usage);

void TakeCalibration(const AcceptanceModel& model, EngineStats* stats);

// Not ok, naming the figures, when drafted != invalidated (by every reason) + trimmed + verified,
// when accepted <= reached <= verified fails at a position, when the positions, the rounds by
// length or the rows do not add up to the totals, or when the tokens that came out are not rounds +
// accepted - cut.
Status CheckCounters(const EngineStats& stats);

}  // namespace firesteel
