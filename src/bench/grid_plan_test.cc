#include "bench/grid_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace firesteel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

GridConfig Config() {
  GridConfig config;
  config.configurations = {{.name = "a"}, {.name = "b", .flags = {"--spec-method", "ngram"}}};
  config.scenarios = {
      {.name = "x", .prompts = "p", .levels = {{.concurrency = 1}, {.concurrency = 8}}},
      {.name = "y", .prompts = "p", .levels = {{.concurrency = 4}}}};
  config.repeats = 2;
  return config;
}

const GridIdentity kIdentity = {.binary = "build 1", .scenario_work = {"px", "py"}};

std::vector<std::string> Paths(const std::vector<PlannedCell>& plan) {
  std::vector<std::string> paths;
  for (const PlannedCell& cell : plan) paths.push_back(cell.path.substr(6));
  return paths;
}

TEST(GridPlanTest, EverySecondRepeatRunsBackwards) {
  EXPECT_THAT(Paths(PlanGrid(Config(), kIdentity)),
              ElementsAre("x/a-c1-r1.json", "x/a-c8-r1.json", "y/a-c4-r1.json", "x/b-c1-r1.json",
                          "x/b-c8-r1.json", "y/b-c4-r1.json", "y/b-c4-r2.json", "x/b-c8-r2.json",
                          "x/b-c1-r2.json", "y/a-c4-r2.json", "x/a-c8-r2.json", "x/a-c1-r2.json"));
}

TEST(GridPlanTest, ExcludedCellsAreLeftOut) {
  GridConfig config = Config();
  config.repeats = 1;
  config.exclusions = {{.configuration = "b", .concurrency = {8, 4}}, {.scenario = "y"}};
  EXPECT_THAT(Paths(PlanGrid(config, kIdentity)),
              ElementsAre("x/a-c1-r1.json", "x/a-c8-r1.json", "x/b-c1-r1.json"));
}

TEST(GridPlanTest, WorkIsTheSameForAllConfigurationsAndSetupForAllWork) {
  const std::vector<PlannedCell> plan = PlanGrid(Config(), kIdentity);
  std::set<std::string> works, setups;
  for (const PlannedCell& cell : plan) {
    works.insert(cell.work);
    setups.insert(cell.setup);
  }
  EXPECT_EQ(works.size(), 3u);
  EXPECT_EQ(setups.size(), 2u);
}

// Whatever changes what is measured makes another cell of it.
TEST(GridPlanTest, AnyChangeOfWorkOrServerIsSeen) {
  const PlannedCell base = PlanGrid(Config(), kIdentity)[0];
  const auto work_of = [](const GridConfig& config, const GridIdentity& identity) {
    return PlanGrid(config, identity)[0].work;
  };
  GridConfig config = Config();
  config.scenarios[0].request["temperature"] = 1;
  EXPECT_NE(work_of(config, kIdentity), base.work);
  config = Config();
  config.scenarios[0].max_tokens = 1;
  EXPECT_NE(work_of(config, kIdentity), base.work);
  config = Config();
  config.scenarios[0].levels[0].num_prompts = 3;
  EXPECT_NE(work_of(config, kIdentity), base.work);
  config = Config();
  config.warmups = 5;
  EXPECT_NE(work_of(config, kIdentity), base.work);
  EXPECT_NE(work_of(Config(), {.binary = "build 1", .scenario_work = {"other", "py"}}), base.work);

  const auto setup_of = [](const GridConfig& config, const char* binary) {
    return PlanGrid(config, {.binary = binary, .scenario_work = {"px", "py"}})[0].setup;
  };
  EXPECT_EQ(setup_of(Config(), "build 1"), base.setup);
  EXPECT_NE(setup_of(Config(), "build 2"), base.setup);
  config = Config();
  config.server_flags = {"--threads", "1"};
  EXPECT_NE(setup_of(config, "build 1"), base.setup);
  config = Config();
  config.configurations[0].flags = {"--threads", "1"};
  EXPECT_NE(setup_of(config, "build 1"), base.setup);
  config = Config();
  config.configurations[0].url = "http://h";
  const std::string other = setup_of(config, "build 1");
  EXPECT_NE(other, base.setup);
  EXPECT_EQ(other, setup_of(config, "build 2"));  // our build does not change another server
}

TEST(GridPlanTest, HashTellsWhereTextsEnd) {
  EXPECT_EQ(GridHash({"ab", "c"}), GridHash({"ab", "c"}));
  EXPECT_NE(GridHash({"ab", "c"}), GridHash({"a", "bc"}));
  EXPECT_NE(GridHash({""}), GridHash({}));
}

TEST(GridPlanTest, ThePlanCountsRequests) {
  GridConfig config = Config();
  config.scenarios[1].levels[0].num_prompts = 5;
  const std::string text = FormatGridPlan(config, PlanGrid(config, kIdentity), {3, 3}, 2);
  EXPECT_THAT(text, HasSubstr("12 cells: 2 configurations, 2 repeats; 2 of them are measured"));
  EXPECT_THAT(text, HasSubstr("x: p, at most 128 tokens out, concurrency 1 8, 24 requests"));
  EXPECT_THAT(text, HasSubstr("y: p, at most 128 tokens out, concurrency 4, 20 requests"));
  EXPECT_THAT(text, HasSubstr("44 requests in all"));
}

}  // namespace
}  // namespace firesteel
