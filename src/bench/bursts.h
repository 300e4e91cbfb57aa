// How many tokens each read of a stream brought. While it runs, every source is counted; at its end
// the best one decides.
//
// Functions without state, thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "bench/request_record.h"

namespace firesteel {

// What one read brought, by each source that may tell.
struct BurstCandidate {
  int64_t time_ns = 0;
  int32_t events = 0;       // events with choices
  int32_t text_events = 0;  // of these, with generated text of any channel
  int32_t text_bytes = 0;
  std::optional<int32_t> ids = {};       // token ids
  std::optional<int32_t> logprobs = {};  // entries of a list of log probabilities
  std::optional<int32_t> total = {};     // the server's running count after it
};

// Sets bursts and burst_basis. Reads without a new token are no bursts: their time goes into the
// next gap.
void ResolveBursts(const std::vector<BurstCandidate>& candidates, RequestRecord* record);

// Number of tokens of a piece of text.
using CountTokens = std::function<int32_t(std::string_view text)>;

// For records whose bursts are counted by events only (kChunk): shares the server's count out by
// the tokens of each piece of text, or by its bytes where `count` is null. Leaves alone what has
// fewer tokens than bursts. Costs as much as tokenizing, so it is not for the time of the run.
void RefineBursts(const CountTokens& count, RequestRecord* record);

// `total` in parts proportional to `weights`, by the largest remainder, each at least 1. REQUIRES:
// total >= weights.size(), a positive sum.
std::vector<int32_t> ShareOut(int32_t total, const std::vector<int32_t>& weights);

}  // namespace firesteel
