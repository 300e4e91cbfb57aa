#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "speculation/medusa_internal.h"

namespace firesteel {
namespace {

using ::testing::HasSubstr;

// For a checkpoint of three heads.
std::string Error(const std::string& choices) {
  return ReadMedusaTree(*ParseJson("{\"medusa_choices\":" + choices + "}", "config"), 3)
      .status()
      .message();
}

TEST(MedusaTree, Named) {
  const auto tree = [](const char* config, int32_t heads) {
    return *ReadMedusaTree(*ParseJson(config, "config"), heads);
  };
  EXPECT_EQ(tree(R"({"medusa_choices":"mc_sim_7b_63"})", 5).nodes.size(), 63u);
  EXPECT_EQ(tree(R"({"medusa_choices":"mc_sim_7b_63"})", 5).depth, 4);
  EXPECT_EQ(tree(R"({"medusa_choices":"mc_sim_7b_63"})", 5).ranks, 10);
  EXPECT_EQ(tree(R"({"medusa_choices":"small"})", 5).nodes.size(), 10u);
  EXPECT_EQ(tree(R"({"medusa_choices":"small"})", 1).nodes.size(), 3u);
  EXPECT_TRUE(tree(R"({"medusa_choices":"chain"})", 5).nodes.empty());
}

TEST(MedusaTree, ChoicesThatCannotBe) {
  EXPECT_THAT(Error("[[0],[0,1],[1,0]]"),
              HasSubstr("medusa_choices holds [1,0] without its parent [1] before it"));
  EXPECT_THAT(Error("[[0],[0]]"), HasSubstr("holds [0] twice"));
  EXPECT_THAT(Error("[[0],[0,0],[0,0,0],[0,0,0,0]]"),
              HasSubstr("holds [0,0,0,0], expected 1 to 3 ranks, one for each head"));
  EXPECT_THAT(Error("[[64]]"), HasSubstr("expected ranks from 0 to 63"));
  EXPECT_THAT(Error("[[-1]]"), HasSubstr("expected ranks from 0 to 63"));
  EXPECT_THAT(Error("[[]]"), HasSubstr("holds [], expected 1 to 3 ranks"));
  EXPECT_THAT(Error("[]"), HasSubstr("holds 0 paths"));
  EXPECT_THAT(Error("[0]"), HasSubstr("medusa_choices"));
  EXPECT_THAT(Error("[null]"), HasSubstr("expected lists of ranks"));
  EXPECT_THAT(Error("7"), HasSubstr("medusa_choices is 7, expected"));
  EXPECT_THAT(Error("\"big\""), HasSubstr("expected chain, small, mc_sim_7b_63 or a list"));
}

}  // namespace
}  // namespace firesteel
