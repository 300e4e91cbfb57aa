// The self-test of a drafter: exact on fakes whose acceptance is known, and on the demo pair with
// what goes wrong in the wild.
#include "engine/drafter_self_test.h"

#include <gmock/gmock.h>

#include <future>
#include <string>

#include "engine/test_engine.h"
#include "firesteel/engine.h"

namespace firesteel {
namespace {

class DrafterSelfTest : public testing::Test {
 protected:
  SelfTestResult Run(FakeDrafterOptions drafter_options, const EngineOptions& options,
                     std::span<const std::vector<int32_t>> prompts,
                     FakeModelOptions model_options = {}) {
    ThreadPool pool(1);
    Exec exec(pool);
    const FakeModel model(std::move(model_options));
    FakeDrafter drafter(model, 1, options.max_num_seqs, std::move(drafter_options));
    CacheLayout layout{model.CacheGroups(DType::kF32)};
    layout.groups.push_back(drafter.CacheGroups(DType::kF32)[0]);
    KvCache cache(layout, {.num_blocks = 64, .max_slots = options.max_num_seqs});
    Workspace model_workspace, draft_workspace;
    const Result<SelfTestResult> result = TestDrafter(
        {exec, model, drafter, cache, model_workspace, draft_workspace, clock_}, options, prompts);
    FS_CHECK(result.ok(), "{}", result.status().message());
    EXPECT_EQ(drafter.complaint(), "");
    EXPECT_EQ(cache.NumUsed(), 0);
    cache.CheckInvariants();
    return *result;
  }
  static std::vector<std::vector<int32_t>> Prompts(int32_t count) {
    std::vector<std::vector<int32_t>> prompts;
    for (int32_t i = 0; i < count; ++i) prompts.push_back(MakePrompt(i, 3 + i * 7 % 60, 64));
    return prompts;
  }
  static FakeDrafterOptions Drafts(FakeDraftKind kind) {
    FakeDrafterOptions options;
    options.kind = kind;
    return options;
  }
  static EngineOptions Options() {
    EngineOptions options;
    options.max_model_len = 256;
    options.max_num_seqs = 4;
    options.max_num_batched_tokens = 40;
    return options;
  }

  ManualClock clock_;
};

TEST_F(DrafterSelfTest, CountsWhatIsAccepted) {
  const auto prompts = Prompts(24);
  const SelfTestResult right = Run(Drafts(FakeDraftKind::kRight), Options(), prompts);
  EXPECT_GE(right.generated, 24 * 32);
  EXPECT_EQ(right.accepted, right.reached);
  EXPECT_EQ(right.reached[0], right.reached[1]);
  EXPECT_GT(right.reached[0], 200);
  EXPECT_EQ(right.Objection(), "");

  const SelfTestResult wrong = Run(Drafts(FakeDraftKind::kWrong), Options(), prompts);
  EXPECT_EQ(wrong.generated, 24 * 32);
  EXPECT_EQ(wrong.reached[0], 24 * 31);  // the first token of each comes from the prompt
  EXPECT_EQ(wrong.accepted[0], 0);
  EXPECT_THAT(wrong.Objection(), testing::HasSubstr("position 1 is accepted in 0.0 %"));

  // One token right and no more: the second position alone is at fault.
  FakeDrafterOptions one = Drafts(FakeDraftKind::kMixed);
  one.right_count = [](int64_t) { return 1; };
  const SelfTestResult first = Run(one, Options(), prompts);
  EXPECT_EQ(first.accepted[0], first.reached[0]);
  EXPECT_EQ(first.reached[1], first.reached[0]);
  EXPECT_EQ(first.accepted[1], 0);
  EXPECT_THAT(first.Objection(),
              testing::HasSubstr("position 2 behind an accepted one is accepted in 0.0 %"));
}

TEST_F(DrafterSelfTest, OddDraftsAndSmallEnginesDoNoHarm) {
  for (const FakeDraftKind kind : {FakeDraftKind::kOutOfVocab, FakeDraftKind::kTooLong,
                                   FakeDraftKind::kEmpty, FakeDraftKind::kRandom}) {
    for (const int32_t rows : {1, 3, 7, 200}) {
      EngineOptions options = Options();
      options.max_num_batched_tokens = rows;
      options.max_num_seqs = std::min(4, rows);
      const SelfTestResult result = Run(Drafts(kind), options, Prompts(6));
      EXPECT_GE(result.generated, 6 * 32);
      EXPECT_EQ(result.reached[0] > 0, kind != FakeDraftKind::kEmpty && rows > 1);
    }
  }
  EngineOptions tiny = Options();
  tiny.max_model_len = 16;
  EXPECT_EQ(Run({}, tiny, Prompts(3)).generated, 0);
  EXPECT_EQ(Run({}, Options(), {}).generated, 0);
}

TEST_F(DrafterSelfTest, StopsInTimeAndJudgesOnlyWhatItSaw) {
  FakeModelOptions slow;
  slow.on_forward = [&](const ForwardBatch&) {
    clock_.AdvanceNs(1'000'000'000);
    return Status();
  };
  const SelfTestResult result =
      Run(Drafts(FakeDraftKind::kWrong), Options(), Prompts(24), std::move(slow));
  EXPECT_TRUE(result.out_of_time);
  EXPECT_LT(result.generated, 60);
  EXPECT_EQ(result.Objection(), "");  // too few rounds to condemn it
}

std::unique_ptr<Engine> LoadTested(const std::string& pair) {
  const std::string directory = std::string(FIRESTEEL_SOURCE_DIR "/models/") + pair;
  EngineOptions options;
  options.model = directory + "/target";
  options.max_model_len = 512;
  options.max_num_seqs = 16;
  options.threads = 2;
  options.warmup = false;
  options.speculation.method = "auto";
  options.speculation.model = directory + "/dspark";
  options.speculation.self_test = true;
  Result<std::unique_ptr<Engine>> engine = Engine::Load(options);
  FS_CHECK(engine.ok(), "{}", engine.status().message());
  return *std::move(engine);
}

TEST(DrafterSelfTestOfAPair, ATrainedOnePasses) {
  const std::unique_ptr<Engine> engine = LoadTested("demo");
  EXPECT_EQ(engine->Summary().spec_method, "dspark");
  EXPECT_GT(engine->Summary().draft_weight_bytes, 0);
  EXPECT_EQ(engine->Stats().generation_tokens, 0);
}

// The tiny drafter has random weights, as good as those of another target.
TEST(DrafterSelfTestOfAPair, AStrangerIsNotSpeculatedWith) {
  const std::unique_ptr<Engine> engine = LoadTested("tiny");
  EXPECT_EQ(engine->Summary().spec_method, "none");
  EXPECT_EQ(engine->options().speculation.method, "none");
  EXPECT_EQ(engine->Summary().draft_weight_bytes, 0);
  EngineOptions plain;
  plain.model = engine->options().model;
  plain.max_model_len = 512;
  plain.max_num_seqs = 16;
  plain.warmup = false;
  const Result<std::unique_ptr<Engine>> without = Engine::Load(plain);
  ASSERT_TRUE(without.ok());
  // As if the drafter had never been named.
  EXPECT_EQ(engine->Summary().kv_bytes_per_token, (*without)->Summary().kv_bytes_per_token);
  EXPECT_EQ(engine->Summary().num_kv_blocks, (*without)->Summary().num_kv_blocks);
  std::promise<size_t> done;
  size_t tokens = 0;
  SamplingParams sampling;
  sampling.temperature = 0;
  sampling.max_tokens = 8;
  sampling.ignore_eos = true;
  ASSERT_TRUE(engine
                  ->Submit({.prompt = {1, 2, 3, 4}, .sampling = sampling},
                           [&](const TokenEvent& event) {
                             tokens += event.tokens.size();
                             if (event.finish) done.set_value(tokens);
                           })
                  .ok());
  EXPECT_EQ(done.get_future().get(), 8u);
}

}  // namespace
}  // namespace firesteel
