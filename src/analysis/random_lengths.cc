#include "analysis/random_lengths.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "bench/statistics.h"

namespace firesteel {
namespace {

constexpr int64_t kMaxPrompts = 1'000'000;
constexpr int64_t kMaxLength = 100'000'000;
// Of the reports' scripts, of SGLang's client and of vLLM's.
constexpr uint64_t kUsualSeeds[] = {42, 1, 0};

double Mean(const std::vector<int64_t>& values) {
  if (values.empty()) return 0;
  return static_cast<double>(std::accumulate(values.begin(), values.end(), int64_t{0})) /
         static_cast<double>(values.size());
}

bool AddsUp(const std::vector<int64_t>& lengths, const std::optional<int64_t>& total) {
  return !total || std::accumulate(lengths.begin(), lengths.end(), int64_t{0}) == *total;
}

}  // namespace

std::vector<int64_t> LegacyIntegers::Draw(int64_t low, int64_t high, size_t count) {
  FS_CHECK(low < high);
  const uint64_t span = static_cast<uint64_t>(high - 1 - low);
  if (span == 0) return std::vector<int64_t>(count, low);  // draws nothing from the engine
  uint64_t mask = span;
  for (int shift = 1; shift < 64; shift *= 2) mask |= mask >> shift;
  std::vector<int64_t> values;
  values.reserve(count);
  while (values.size() < count) {
    const uint64_t value = engine_() & mask;
    if (value <= span) values.push_back(low + static_cast<int64_t>(value));
  }
  return values;
}

double RandomLengths::MeanInput() const { return Mean(input); }
double RandomLengths::MeanOutput() const { return Mean(output); }

double RandomLengths::OutputSpread() const {
  std::vector<double> sorted(output.begin(), output.end());
  std::sort(sorted.begin(), sorted.end());
  return Percentile(sorted, 99) / MeanOutput();
}

std::optional<RandomLengths> ReproduceLengths(const RunWork& work) {
  const std::optional<int64_t> count = work.prompts ? work.prompts : work.completed;
  if (!work.dataset.starts_with("random") || !work.max_input || !work.max_output || !count)
    return std::nullopt;
  if (*count < 1 || *count > kMaxPrompts) return std::nullopt;
  for (const int64_t bound : {*work.max_input, *work.max_output}) {
    if (bound < 1 || bound > kMaxLength) return std::nullopt;
  }
  const bool totals_known = work.input_tokens && work.output_tokens;
  std::vector<uint64_t> seeds(std::begin(kUsualSeeds), std::end(kUsualSeeds));
  if (work.seed) seeds = {*work.seed};
  if (!work.seed && !totals_known) return std::nullopt;
  const double ratio = std::clamp(work.range_ratio.value_or(0), 0.0, 1.0);
  const auto low = [&](int64_t bound) {
    return std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(bound) * ratio));
  };
  for (const uint64_t seed : seeds) {
    LegacyIntegers integers(seed);
    RandomLengths lengths;
    lengths.seed = seed;
    const size_t n = static_cast<size_t>(*count);
    lengths.input = integers.Draw(low(*work.max_input), *work.max_input + 1, n);
    lengths.output = integers.Draw(low(*work.max_output), *work.max_output + 1, n);
    if (AddsUp(lengths.input, work.input_tokens) && AddsUp(lengths.output, work.output_tokens))
      return lengths;
  }
  return std::nullopt;
}

}  // namespace firesteel
