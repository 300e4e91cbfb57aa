// Speculation leaves unseeded sampling alone, from end to end: the first three output tokens under
// each method against those of plain decoding, a two-sample G-test per prompt, combined over the
// prompts. `make test` takes a tenth of the samples, `make test-full` all.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <latch>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "firesteel/engine.h"
#include "speculation/test_statistics.h"

namespace firesteel {
namespace {

const std::string kModels = FIRESTEEL_SOURCE_DIR "/models/tiny/";
constexpr size_t kPrompts = 50;
constexpr size_t kTokens = 3;
constexpr double kLimit = 1e-6;

using Text = std::array<int32_t, kTokens>;
using Samples = std::vector<std::vector<Text>>;  // by prompt

struct Sampled {
  Samples samples;
  EngineStats stats;
};

Sampled Sample(const std::string& method, double temperature, int32_t plant_wrong_accepts = 0) {
  const size_t per_prompt = std::getenv("FIRESTEEL_FULL") != nullptr ? 4'000 : 100;
  EngineOptions options;
  options.model = kModels + "target";
  options.speculation.method = method;
  if (method == "dspark") options.speculation.model = kModels + "dspark";
  if (method == "ngram") options.speculation.config_json = R"({"prompt_lookup_min": 1})";
  options.max_num_seqs = 64;
  options.max_queue = static_cast<int32_t>(kPrompts * per_prompt);
  options.max_model_len = 64;
  options.threads = 1;
  options.warmup = false;
  options.plant_wrong_accepts = plant_wrong_accepts;
  Sampled run;
  run.samples.assign(kPrompts, std::vector<Text>(per_prompt, Text{}));
  auto engine = Engine::Load(options);
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  if (!engine.ok()) return run;
  std::latch ended(static_cast<std::ptrdiff_t>(kPrompts * per_prompt));
  for (size_t i = 0; i < per_prompt; ++i) {
    for (size_t p = 0; p < kPrompts; ++p) {
      Request request;
      // It repeats itself, so that there is something to look up.
      for (int32_t k = 0; k < 20; ++k)
        request.prompt.push_back(static_cast<int32_t>(3 + 9 * p) + k % 4 % 3);
      request.sampling.temperature = temperature;
      request.sampling.max_tokens = kTokens + 3;  // so that the drafts at the counted ones are long
      request.sampling.ignore_eos = true;
      auto id =
          (*engine)->Submit(std::move(request), [&, i, p, n = size_t{0}](TokenEvent event) mutable {
            for (int32_t token : event.tokens) {
              if (n < kTokens) run.samples[p][i][n++] = token;
            }
            if (event.finish) ended.count_down();
          });
      EXPECT_TRUE(id.ok()) << id.status().message();
      if (!id.ok()) ended.count_down();
    }
  }
  ended.wait();
  run.stats = (*engine)->Stats();
  EXPECT_EQ(run.stats.requests_finished_length, static_cast<int64_t>(kPrompts * per_prompt));
  return run;
}

// The two-sample G statistic of one prompt. A text is a cell; rare ones share that of their
// beginning. Which are rare is read off both samples together, of whose difference that says
// nothing.
ChiSquare TwoSampleG(const std::vector<Text>& a, const std::vector<Text>& b, size_t length) {
  constexpr double kEnough = 20;
  using Cell = std::array<double, 2>;
  std::map<std::vector<int32_t>, Cell> cells;
  for (const auto& [sample, texts] : {std::pair(0, &a), std::pair(1, &b)}) {
    for (const Text& text : *texts) {
      ++cells[{text.begin(), text.begin() + static_cast<std::ptrdiff_t>(length)}]
             [static_cast<size_t>(sample)];
    }
  }
  for (size_t prefix = length; prefix-- > 0;) {
    std::map<std::vector<int32_t>, Cell> merged;
    for (const auto& [text, cell] : cells) {
      std::vector<int32_t> key = text;
      if (cell[0] + cell[1] < kEnough && key.size() > prefix) key.resize(prefix);
      merged[key][0] += cell[0];
      merged[key][1] += cell[1];
    }
    cells = std::move(merged);
  }
  // What is left over may be rare still: it joins the next, the shortest of the others.
  if (cells.size() > 1 && cells.begin()->second[0] + cells.begin()->second[1] < kEnough) {
    const Cell rest = cells.begin()->second;
    cells.erase(cells.begin());
    cells.begin()->second[0] += rest[0];
    cells.begin()->second[1] += rest[1];
  }
  ChiSquare result;
  const std::array<double, 2> size = {static_cast<double>(a.size()), static_cast<double>(b.size())};
  for (const auto& [text, cell] : cells) {
    for (size_t s = 0; s < 2; ++s) {
      const double expected = (cell[0] + cell[1]) * size[s] / (size[0] + size[1]);
      if (cell[s] > 0) result.statistic += 2 * cell[s] * std::log(cell[s] / expected);
    }
  }
  result.degrees = static_cast<int>(cells.size()) - 1;
  if (result.degrees > 0) result.p_value = UpperGamma(result.degrees / 2.0, result.statistic / 2);
  return result;
}

// The p-value over all prompts, by Fisher's method.
double Compare(const Sampled& a, const Sampled& b, size_t length) {
  double sum = 0;
  int prompts = 0;
  int degrees = 0;
  for (size_t p = 0; p < kPrompts; ++p) {
    const ChiSquare test = TwoSampleG(a.samples[p], b.samples[p], length);
    if (test.degrees == 0) continue;
    sum -= std::log(std::max(test.p_value, 1e-300));
    degrees += test.degrees;
    ++prompts;
  }
  const double p_value = prompts > 0 ? UpperGamma(prompts, sum) : 1;
  std::printf("first %zu tokens: %d prompts, %d degrees of freedom, p = %g\n", length, prompts,
              degrees, p_value);
  EXPECT_GE(degrees, 20) << "too few cells to tell anything";
  return p_value;
}

void ExpectUnchanged(const std::string& method, double temperature, int64_t least_accepted) {
  const Sampled plain = Sample("none", temperature);
  const Sampled speculative = Sample(method, temperature);
  const EngineStats& stats = speculative.stats;
  std::printf("%s: %lld draft tokens verified in %lld rounds, %lld accepted\n", method.c_str(),
              static_cast<long long>(stats.spec_verified),
              static_cast<long long>(stats.spec_rounds),
              static_cast<long long>(stats.spec_accepted));
  EXPECT_GE(stats.spec_accepted, least_accepted);
  EXPECT_GE(stats.spec_verified, stats.spec_accepted + 1'000);  // and many were not
  EXPECT_GT(Compare(plain, speculative, 1), kLimit);
  EXPECT_GT(Compare(plain, speculative, kTokens), kLimit);

  const Sampled wrong = Sample(method, temperature, std::numeric_limits<int32_t>::max());
  EXPECT_GT(Compare(plain, wrong, 1), kLimit);  // from the prompt, without a draft
  EXPECT_LT(Compare(plain, wrong, kTokens), kLimit)
      << "every draft token was accepted, and nothing is to be seen";
}

// The weights are random: the temperatures are those at which the texts differ, yet many come
// again.
TEST(Distribution, OfNgramIsThatOfPlainDecoding) { ExpectUnchanged("ngram", 0.5, 1'000); }

TEST(Distribution, OfDsparkIsThatOfPlainDecoding) { ExpectUnchanged("dspark", 1.0, 300); }

}  // namespace
}  // namespace firesteel
