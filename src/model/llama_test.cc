// What Llama has that Qwen3 has not, and the reverse. The rest is dense_decoder_test.cc's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/mapped_file.h"
#include "kernels/matmul.h"
#include "model/model_runner.h"
#include "model/test_checkpoint.h"
#include "model/test_golden.h"

namespace firesteel {
namespace {

using ::testing::HasSubstr;

class LlamaTest : public ::testing::Test {
 protected:
  std::vector<Row> Run(const Json& config, const TestTensors& tensors,
                       const LoadOptions& options = {}) {
    const TempDir dir;
    WriteCheckpoint(dir, config, tensors);
    const auto model = Load(exec_, dir.path(), options);
    Runner runner(exec_, *model, DType::kF32, 16, {5, kAfterFinalNorm});
    return runner.RunChunked(0, Tokens(40, 3), 13);
  }
  Status Failure(const Json& config, const TestTensors& tensors) {
    const TempDir dir;
    WriteCheckpoint(dir, config, tensors);
    return LoadModel(exec_, dir.path(), {}).status();
  }

  ThreadPool pool_{2};
  Exec exec_{pool_};
  const Json config_ = TinyLlamaConfig();
};

TEST_F(LlamaTest, HeadTiedOrNot) {
  Json untied = config_;
  untied["tie_word_embeddings"] = false;
  TestTensors tensors = RandomQwen3(untied, DType::kBF16);
  const std::vector<Row> own = Run(untied, tensors);
  tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"];
  const std::vector<Row> copy = Run(untied, tensors);
  EXPECT_FALSE(own == copy);
  EXPECT_TRUE(Run(config_, RandomQwen3(config_, DType::kBF16)) == copy);
}

// Without scaling, another text: the comparison with the golden file sees it too.
TEST_F(LlamaTest, ScalingTurnsTheHeads) {
  const TestTensors tensors = RandomQwen3(config_, DType::kBF16);
  Json plain = config_;
  plain.erase("rope_scaling");
  const std::vector<Row> scaled = Run(config_, tensors), unscaled = Run(plain, tensors);
  EXPECT_TRUE(scaled[0] == unscaled[0]);  // position 0 is not turned
  for (size_t t = 1; t < scaled.size(); ++t) EXPECT_FALSE(scaled[t] == unscaled[t]) << t;
}

TEST_F(LlamaTest, BallastChangesNothing) {
  const TestTensors tensors = RandomQwen3(config_, DType::kBF16);
  EXPECT_TRUE(Run(config_, tensors, {.ballast_layers = 2, .ballast_width = 96}) ==
              Run(config_, tensors));
}

// Norms per head belong to Qwen3: there they must be present, here they may not be.
TEST_F(LlamaTest, NormsPerHead) {
  const Json qwen3 = TinyQwen3Config();
  EXPECT_THAT(Failure(config_, RandomQwen3(qwen3, DType::kBF16)).message(), HasSubstr("_norm"));
  EXPECT_THAT(Failure(qwen3, RandomQwen3(config_, DType::kBF16)).message(),
              HasSubstr("tensor model.layers.0.self_attn.q_norm.weight is missing"));
}

// What a drafter sees behind the final norm is what the head reads.
TEST_F(LlamaTest, FeaturesAfterTheFinalNorm) {
  const TempDir dir;
  WriteCheckpoint(dir, config_, RandomQwen3(config_, DType::kBF16));
  const auto model = Load(exec_, dir.path());
  Runner runner(exec_, *model, DType::kF32, 16, {-1, kAfterFinalNorm, 2});
  Workspace workspace;
  for (const Row& row : runner.Run({{0, 0, Tokens(20, 4)}})) {
    const Matrix<float> normed = workspace.Floats(1, 64), logits = workspace.Floats(1, 512);
    std::copy_n(row.features.begin() + 64, 64, normed.Row(0));
    MatMul(exec_, normed, *model->lm_head(), logits);
    EXPECT_EQ(std::vector(logits.Row(0), logits.Row(0) + 512), row.logits);
  }
}

}  // namespace
}  // namespace firesteel
