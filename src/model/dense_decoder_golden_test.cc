// The target against an independent reference (training/golden.py, float64).
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "base/json.h"
#include "base/mapped_file.h"
#include "model/model_runner.h"
#include "model/safetensors.h"
#include "model/test_golden.h"

namespace firesteel {
namespace {

// Largest |a - b| in units of what float32 sums of these operands may be off: every layer adds
// rounding errors of a few epsilon of the row's norm, and they add up like a random walk.
double ErrorInTolerances(std::span<const float> a, std::span<const float> b, int32_t layers) {
  double norm = 0, error = 0;
  for (const float x : b) norm = std::max(norm, std::abs(double{x}));
  for (size_t i = 0; i < a.size(); ++i) error = std::max(error, std::abs(double{a[i]} - b[i]));
  return error / (16 * FLT_EPSILON * std::sqrt(static_cast<double>(layers)) * norm);
}

class DenseDecoderGolden : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(DenseDecoderGolden, LogitsFeaturesAndGreedyText) {
  const auto& [directory, name] = GetParam();
  ThreadPool pool(2);
  Exec exec{pool};
  const auto model = Load(exec, SourcePath(directory));
  const Result<Safetensors> golden =
      Safetensors::OpenFile(SourcePath(std::string("tests/golden/") + name + ".safetensors"));
  ASSERT_TRUE(golden.ok()) << golden.status().message();
  const Json index =
      *ParseJson(*ReadFile(SourcePath(std::string("tests/golden/") + name + ".json")), name);
  const std::vector<int32_t> layers = index["target_layer_ids"];
  double worst = 0;
  for (size_t p = 0; p < index["prompts"].size(); ++p) {
    const std::string key = "prompt" + std::to_string(p) + ".";
    std::vector<int32_t> ids = ReadAll<int32_t>(*golden, key + "input_ids");
    const auto rows = ReadAll<int32_t>(*golden, key + "rows");
    const auto logits = ReadAll<float>(*golden, key + "logits");
    const auto features = ReadAll<float>(*golden, key + "features");
    Runner runner(exec, *model, DType::kF32, 16, layers);
    std::vector<Row> out = runner.Run({{0, 0, ids}});
    const size_t vocab = out[0].logits.size(), width = out[0].features.size();
    ASSERT_EQ(features.size(), ids.size() * width);
    for (size_t i = 0; i < rows.size(); ++i) {
      worst = std::max(worst, ErrorInTolerances(out[static_cast<size_t>(rows[i])].logits,
                                                std::span(logits).subspan(i * vocab, vocab),
                                                model->info().num_layers));
    }
    const size_t h = width / layers.size();
    for (size_t t = 0; t < ids.size(); ++t) {
      for (size_t m = 0; m < layers.size(); ++m) {
        worst = std::max(worst, ErrorInTolerances(std::span(out[t].features).subspan(m * h, h),
                                                  std::span(features).subspan(t * width + m * h, h),
                                                  model->info().num_layers));
      }
    }
    for (const int32_t token : ReadAll<int32_t>(*golden, key + "greedy")) {
      const std::vector<float>& last = out.back().logits;
      ASSERT_EQ(std::max_element(last.begin(), last.end()) - last.begin(), token)
          << key << ids.size();
      ids.push_back(token);
      out = runner.Run({{0, static_cast<int32_t>(ids.size()) - 1, std::span(ids).last(1)}});
    }
  }
  RecordProperty("worst_error_in_tolerances", std::to_string(worst));
  EXPECT_LT(worst, 1);
  EXPECT_GT(worst, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, DenseDecoderGolden,
                         ::testing::Values(std::pair("models/tiny/target", "tiny_target"),
                                           std::pair("models/tiny/target_sharded", "tiny_target"),
                                           std::pair("models/tiny/llama", "tiny_llama"),
                                           std::pair("models/demo/target", "demo_target")),
                         [](const auto& info) {
                           std::string name = info.param.first;
                           std::replace(name.begin(), name.end(), '/', '_');
                           return name;
                         });

}  // namespace
}  // namespace firesteel
