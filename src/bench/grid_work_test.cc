#include "bench/grid_work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace firesteel {
namespace {

using ::testing::HasSubstr;

GridScenario Random(double ratio) {
  return {.name = "r",
          .random_input_len = 40,
          .random_output_len = 20,
          .random_range_ratio = ratio,
          .levels = {{.concurrency = 1, .num_prompts = 12}}};
}

GridConfig Config() {
  GridConfig config;
  config.tokenizer = FIRESTEEL_SOURCE_DIR "/models/demo/target";
  return config;
}

TEST(GridWorkTest, RandomPromptsAreTheSameEveryTimeAndWithinTheirBounds) {
  const GridScenario scenario = Random(0);
  const auto work = GridWork::Load(Config(), scenario);
  ASSERT_TRUE(work.ok()) << work.status().message();
  const auto first = work->PromptsAt(scenario.levels[0]);
  const auto again = work->PromptsAt(scenario.levels[0]);
  ASSERT_TRUE(first.ok()) << first.status().message();
  ASSERT_EQ(first->prompts.size(), 12u);
  EXPECT_FALSE(first->warmups.empty());
  for (size_t i = 0; i < 12; ++i) {
    const Prompt& prompt = first->prompts[i];
    EXPECT_EQ(prompt.token_ids, again->prompts[i].token_ids);
    EXPECT_EQ(prompt.prompt_tokens, static_cast<int32_t>(prompt.token_ids.size()));
    EXPECT_GE(prompt.token_ids.size(), 1u);
    EXPECT_LE(prompt.token_ids.size(), 40u);
    EXPECT_GE(prompt.output_tokens, 1);
    EXPECT_LE(prompt.output_tokens, 20);
  }
}

TEST(GridWorkTest, RatioOneMakesTheBoundsTheLengths) {
  const GridScenario scenario = Random(1);
  const auto work = GridWork::Load(Config(), scenario);
  ASSERT_TRUE(work.ok()) << work.status().message();
  const auto dataset = work->PromptsAt(scenario.levels[0]);
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  for (const Prompt& prompt : dataset->prompts) {
    EXPECT_EQ(prompt.token_ids.size(), 40u);
    EXPECT_EQ(prompt.output_tokens, 20);
  }
}

TEST(GridWorkTest, TheHashFollowsWhatTheRequestsAreMadeOf) {
  const auto hash = [](const GridConfig& config, const GridScenario& scenario) {
    const auto work = GridWork::Load(config, scenario);
    EXPECT_TRUE(work.ok()) << work.status().message();
    return work.ok() ? work->hash() : "";
  };
  const std::string base = hash(Config(), Random(0));
  EXPECT_EQ(hash(Config(), Random(0)), base);
  EXPECT_NE(hash(Config(), Random(0.5)), base);
  GridConfig other = Config();
  other.seed = 7;
  EXPECT_NE(hash(other, Random(0)), base);
  GridScenario longer = Random(0);
  longer.random_output_len = 21;
  EXPECT_NE(hash(Config(), longer), base);
}

TEST(GridWorkTest, WithoutATokenizerThereAreNoRandomPrompts) {
  const auto work = GridWork::Load({}, Random(0));
  ASSERT_FALSE(work.ok());
  EXPECT_THAT(work.status().message(), HasSubstr("expected tokenizer or --tokenizer DIR"));
}

}  // namespace
}  // namespace firesteel
