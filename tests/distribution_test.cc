// Speculation leaves unseeded sampling alone, from end to end: the first three output tokens under each method against
// those of plain decoding, a two-sample G-test per prompt, combined over the prompts. `make test` takes a tenth of the
// samples, `make test-full` all.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <latch>
#include <map>
#include <string>
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

struct Run {
  Samples samples;
  EngineStats stats;
};

Run Sample(const std::string& method, int32_t plant_wrong_accepts = 0) {
  const size_t per_prompt = std::getenv("FIRESTEEL_FULL") != nullptr ? 4'000 : 400;
  EngineOptions options;
  options.model = kModels + "target";
  options.speculation.method = method;
  if (method == "dspark") options.speculation.model = kModels + "dspark";
  if (method == "ngram") options.speculation.config_json = R"({"prompt_lookup_min": 1})";
  options.max_num_seqs = 64;
  options.max_queue = static_cast<int32_t>(kPrompts * per_prompt);
  options.max_model_len = 64;
  options.warmup = false;
  options.plant_wrong_accepts = plant_wrong_accepts;
  auto engine = Engine::Load(options);
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  Run run;
  if (!engine.ok()) return run;
  run.samples.assign(kPrompts, std::vector<Text>(per_prompt, Text{}));
  std::latch ended(static_cast<std::ptrdiff_t>(kPrompts * per_prompt));
  for (size_t i = 0; i < per_prompt; ++i) {
    for (size_t p = 0; p < kPrompts; ++p) {
      Request request;
      const auto base = static_cast<int32_t>(3 + 9 * p);
      for (int32_t k = 0; k < 20; ++k) request.prompt.push_back(base + k % 4 % 3);
      request.sampling.temperature = std::atof(std::getenv("T"));
      request.sampling.top_k = std::atoi(std::getenv("K"));
      request.sampling.max_tokens = kTokens + 3;  // so that the drafts at the counted ones are long
      request.sampling.ignore_eos = true;
      auto id = engine->get()->Submit(std::move(request), [&, i, p, n = size_t{0}](TokenEvent event) mutable {
        for (int32_t token : event.tokens) {
          if (n < kTokens) run.samples[p][i][n++] = token;
        }
        if (event.finish) ended.count_down();
      });
      EXPECT_TRUE(id.ok()) << id.status().message();
    }
  }
  ended.wait();
  run.stats = (*engine)->Stats();
  return run;
}

// The two-sample G statistic of one prompt. A text is a cell; the rare ones share cells by their first token and then one.
// Which are rare is read off both samples together, of which the null hypothesis says nothing.
ChiSquare TwoSampleG(const std::vector<Text>& a, const std::vector<Text>& b, size_t length) {
  constexpr double kEnough = 20;  // of both samples
  using Cell = std::array<double, 2>;
  std::map<std::vector<int32_t>, Cell> cells;
  for (const Text& text : a) cells[{text.begin(), text.begin() + static_cast<std::ptrdiff_t>(length)}][0]++;
  for (const Text& text : b) cells[{text.begin(), text.begin() + static_cast<std::ptrdiff_t>(length)}][1]++;
  for (size_t prefix = length; prefix-- > 0;) {
    std::map<std::vector<int32_t>, Cell> merged;
    for (auto& [text, cell] : cells) {
      std::vector<int32_t> key = text;
      if (cell[0] + cell[1] < kEnough && key.size() > prefix) key.resize(prefix);
      merged[key][0] += cell[0];
      merged[key][1] += cell[1];
    }
    cells = std::move(merged);
  }
  ChiSquare result;
  const double size[] = {static_cast<double>(a.size()), static_cast<double>(b.size())};
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

// Fisher's combination over the prompts.
double Compare(const Run& a, const Run& b, size_t length) {
  double sum = 0, df = 0, g=0;
  int prompts = 0;
  for (size_t p = 0; p < kPrompts; ++p) {
    const ChiSquare test = TwoSampleG(a.samples[p], b.samples[p], length);
    if (test.degrees == 0) continue;
    sum -= std::log(std::max(test.p_value, 1e-300));
    ++prompts;
    df += test.degrees;
    g+=test.statistic;
  }
  const double p = UpperGamma(prompts, sum);
  std::printf("length %zu: prompts %d df %g G %g p %g\n", length, prompts, df, g, p);
  return p;
}

TEST(Distribution, X) {
  const Run plain = Sample("none");
  Compare(plain, Sample("none"), 3);
  for (const char* method : {"ngram", "dspark"})
    for (int plant : {0, 1 << 30}) {
      const Run run = Sample(method, plant);
      std::printf("%s %d: %ld rounds, %ld verified, %ld accepted\n", method, plant, run.stats.spec_rounds, run.stats.spec_verified, run.stats.spec_accepted);
      Compare(plain, run, 1);
      Compare(plain, run, 3);
    }
}

}  // namespace
}  // namespace firesteel
