// The drafter against an independent reference (training/golden.py, float64).
#include <cfloat>
#include <cmath>

#include "base/mapped_file.h"
#include "model/safetensors.h"
#include "model/test_golden.h"
#include "speculation/block_drafter_test_support.h"

namespace firesteel {
namespace {

struct Golden {
  std::string model;    // models/<model>/target
  std::string drafter;  // models/<model>/<drafter>
  std::string method;
};

class BlockDrafterGolden : public ::testing::TestWithParam<Golden> {
 protected:
  BlockDrafterGolden() {
    Result<std::unique_ptr<Model>> target =
        LoadModel(exec_, SourcePath("models/" + GetParam().model + "/target"), {});
    FS_CHECK(target.ok(), "{}", target.status().message());
    target_ = *std::move(target);
    const std::string base =
        SourcePath("tests/golden/" + GetParam().model + "_" + GetParam().drafter);
    Result<Safetensors> golden = Safetensors::OpenFile(base + ".safetensors");
    FS_CHECK(golden.ok(), "{}", golden.status().message());
    golden_ = *std::move(golden);
    index_ = *ParseJson(*ReadFile(base + ".json"), base);
  }

  struct Error {
    double value = 0;    // largest error over all blocks, in tolerances
    int32_t tokens = 0;  // draft tokens that differ
  };
  Error Compare(BlockDrafterFaults faults);

  ThreadPool pool_{2};
  Exec exec_{pool_};
  std::unique_ptr<Model> target_;
  Safetensors golden_;
  Json index_;
};

// Target and drafter layers each add rounding errors of a few float32 epsilon of the largest value
// in a row.
double InTolerances(double error, std::span<const float> reference) {
  double largest = 0;
  for (const float x : reference) largest = std::max(largest, std::abs(double{x}));
  return error / (64 * FLT_EPSILON * largest);
}

BlockDrafterGolden::Error BlockDrafterGolden::Compare(BlockDrafterFaults faults) {
  SpeculationOptions options{
      .method = GetParam().method,
      .model = SourcePath("models/" + GetParam().model + "/" + GetParam().drafter)};
  const DrafterContext context{exec_, *target_, 1, kSlots, kMaxLen, options, Json::object()};
  const auto vocab = static_cast<size_t>(target_->info().vocab_size),
             h = static_cast<size_t>(target_->info().hidden_size);
  Error error;
  // Of the other anchor convention there may be one row less.
  const auto compare = [&](std::span<const float> found, std::span<const float> expected) {
    FS_CHECK(found.size() == expected.size() || faults.swap_anchor, "{} values, expected {}",
             found.size(), expected.size());
    double worst = 0;
    for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i)
      worst = std::max(worst, std::abs(double{found[i]} - expected[i]));
    error.value = std::max(error.value, InTolerances(worst, expected));
  };
  Pair pair(exec_, *target_, context, faults);
  for (const Json& block : index_["blocks"]) {
    const std::string key = block["key"];
    const auto sequence =
        ReadAll<int32_t>(golden_, "prompt" + DumpJson(block["prompt"]) + ".sequence");
    const std::span<const int32_t> tokens =
        std::span(sequence).first(block["context_length"].get<size_t>() + 1);
    pair.Prefill(0, tokens);
    const auto size = static_cast<size_t>(pair.drafter().info().max_tokens);
    const Draft draft = pair.Propose(Query(0, tokens, static_cast<int32_t>(size)));
    const auto expected = ReadAll<int32_t>(golden_, key + ".tokens");
    FS_CHECK(expected.size() == size);
    for (size_t i = 0; i < std::min(size, draft.tokens.size()); ++i) {
      error.tokens += draft.tokens[i] != expected[i];
    }
    compare(pair.probe().hidden, ReadAll<float>(golden_, key + ".hidden"));
    std::vector<float> top;
    const auto top_ids = ReadAll<int32_t>(golden_, key + ".top_ids");
    for (size_t i = 0; i < top_ids.size(); ++i) {
      top.push_back(pair.probe().logits[i / (top_ids.size() / size) * vocab +
                                        static_cast<size_t>(top_ids[i])]);
    }
    // Logits behind a differing token have another bias; then the tokens already tell.
    if (draft.tokens == expected) compare(top, ReadAll<float>(golden_, key + ".top_logits"));
    if (draft.tokens == expected && golden_.tensors().contains(key + ".logits")) {
      compare(pair.probe().logits, ReadAll<float>(golden_, key + ".logits"));
    }
    // The sigmoid's slope is at most 1/4, so a confidence is off by no more than its logit.
    std::vector<float> logits;
    if (golden_.tensors().contains(key + ".confidence")) {
      logits = ReadAll<float>(golden_, key + ".confidence");
    }
    EXPECT_EQ(draft.confidence.size(), logits.empty() ? 0 : draft.tokens.size());
    for (size_t i = 0; i < logits.size() && draft.tokens == expected; ++i) {
      const double confidence = 1 / (1 + std::exp(-double{logits[i]}));
      error.value = std::max(error.value,
                             InTolerances(std::abs(draft.confidence.at(i) - confidence), logits));
    }
    FS_CHECK(pair.probe().hidden.size() == draft.tokens.size() * h);
  }
  return error;
}

TEST_P(BlockDrafterGolden, DraftsEqualTheReference) {
  const Error error = Compare({});
  RecordProperty("error_in_tolerances", std::to_string(error.value));
  EXPECT_LT(error.value, 1);
  EXPECT_GT(error.value, 0);
  EXPECT_EQ(error.tokens, 0);
}

// The comparison must be able to fail: each fault is one that has been seen in public.
TEST_P(BlockDrafterGolden, PlantedFaultsAreFound) {
  for (const BlockDrafterFaults& faults :
       {BlockDrafterFaults{.layer_shift = 1}, BlockDrafterFaults{.causal_block = true},
        BlockDrafterFaults{.context_shift = 1}, BlockDrafterFaults{.swap_anchor = true},
        BlockDrafterFaults{.reset_state = true}}) {
    if (faults.reset_state && GetParam().drafter != "dspark_rnn") continue;
    const Error error = Compare(faults);
    EXPECT_GT(error.value, 100);
    EXPECT_GT(error.tokens, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, BlockDrafterGolden,
    ::testing::Values(Golden{"tiny", "dspark", "dspark"}, Golden{"tiny", "dspark_gated", "dspark"},
                      Golden{"tiny", "dspark_rnn", "dspark"}, Golden{"tiny", "dflash", "dflash"},
                      Golden{"tiny", "dflash_zlab", "dflash"},
                      Golden{"tiny", "dspark_speculators", "dspark"},
                      Golden{"demo", "dspark", "dspark"}),
    [](const auto& info) { return info.param.model + "_" + info.param.drafter; });

}  // namespace
}  // namespace firesteel
