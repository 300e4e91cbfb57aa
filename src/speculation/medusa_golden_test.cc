// The heads against an independent reference (training/golden_drafters.py, float64).
#include <cfloat>
#include <cmath>

#include "base/mapped_file.h"
#include "model/safetensors.h"
#include "model/test_golden.h"
#include "speculation/drafter_test_support.h"

namespace firesteel {
namespace {

TEST(MedusaGolden, DraftsEqualTheReference) {
  ThreadPool pool(2);
  Exec exec{pool};
  const auto target = LoadTarget(exec, SourcePath("models/tiny/target"));
  const std::string base = SourcePath("tests/golden/tiny_medusa");
  const Result<Safetensors> golden = Safetensors::OpenFile(base + ".safetensors");
  ASSERT_TRUE(golden.ok()) << golden.status().message();
  const Json index = *ParseJson(*ReadFile(base + ".json"), base);
  const SpeculationOptions options{.method = "auto", .model = SourcePath("models/tiny/medusa")};
  const SamplingParams sampling = Sampling(1);
  double worst = 0;
  int32_t blocks = 0, missed = 0;
  for (const Json& block : index["blocks"]) {
    const std::string key = block["key"];
    const auto sequence =
        ReadAll<int32_t>(*golden, "prompt" + DumpJson(block["prompt"]) + ".sequence");
    const auto tokens = std::span(sequence).first(block["context_length"].get<size_t>() + 1);
    Rig rig(exec, *target, options, R"({"medusa_choices":"chain"})");
    rig.Open(0, {});
    rig.Prefill(0, tokens);
    const auto expected = ReadAll<int32_t>(*golden, key + ".tokens");
    const auto count = static_cast<int32_t>(expected.size());
    EXPECT_EQ(rig.Propose(Query(0, tokens, count)).tokens, expected) << key;
    // Logits up to a constant, which the distribution does not tell.
    const auto top_ids = ReadAll<int32_t>(*golden, key + ".top_ids");
    const auto top_logits = ReadAll<float>(*golden, key + ".top_logits");
    const Draft draft = rig.Propose(Query(0, tokens, count, sampling));
    const size_t each = top_ids.size() / expected.size();
    for (size_t i = 0; i < top_ids.size(); ++i) {
      const Distribution& q = draft.probs.at(i / each);
      const size_t best = i / each * each;
      const double found = std::log(double{q.Prob(top_ids[i])} / q.Prob(top_ids[best]));
      const double error = std::abs(found - (double{top_logits[i]} - top_logits[best]));
      worst = std::max(worst, error / (64 * FLT_EPSILON * std::abs(top_logits[best])));
    }
    // A head too many, or the row behind: the comparison must see it.
    const auto others = tokens.first(tokens.size() - 1);
    if (others.size() < 2) continue;
    ++blocks;
    rig.Close(0);
    rig.Open(0, {});
    rig.Prefill(0, others);
    missed += rig.Propose(Query(0, others, count)).tokens == expected ? 1 : 0;
  }
  ::testing::Test::RecordProperty("error_in_tolerances", std::to_string(worst));
  EXPECT_LT(worst, 1);
  EXPECT_GT(worst, 0);
  EXPECT_GT(blocks, 6);
  EXPECT_EQ(missed, 0);
}

}  // namespace
}  // namespace firesteel
