#include "cli/progress_bar.h"

#include <gtest/gtest.h>

namespace firesteel {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

class ProgressBarTest : public ::testing::Test {
 protected:
  ProgressBar Make(bool is_terminal, int width = 80) {
    return ProgressBar([this](std::string_view text) { written_.emplace_back(text); }, is_terminal,
                       width, clock_);
  }
  ManualClock clock_;
  std::vector<std::string> written_;
};

TEST_F(ProgressBarTest, ShortJobsShowNothing) {
  for (const bool is_terminal : {false, true}) {
    ProgressBar bar = Make(is_terminal);
    bar.Update("loading", 0.1);
    clock_.AdvanceNs(kSecond / 4);
    bar.Update("loading", 1.0);
    bar.Finish();
    EXPECT_TRUE(written_.empty());
  }
}

TEST_F(ProgressBarTest, ATerminalLineIsRedrawnTenTimesASecondAtMost) {
  ProgressBar bar = Make(true);
  clock_.AdvanceNs(kSecond);
  bar.Update("packing", 0.5);
  ASSERT_EQ(written_.size(), 1u);
  EXPECT_EQ(written_[0], "\r\x1b[2K[############............]  50 % packing, 1 s left");
  for (int i = 0; i < 100; ++i) {
    clock_.AdvanceNs(kSecond / 100);
    bar.Update("packing", 0.5);
  }
  EXPECT_LE(written_.size(), 12u);
  EXPECT_GE(written_.size(), 10u);
  bar.Finish();
  EXPECT_EQ(written_.back(), "\r\x1b[2K");
  const size_t lines = written_.size();
  bar.Finish();
  EXPECT_EQ(written_.size(), lines);
}

TEST_F(ProgressBarTest, ALongPhaseIsCutToTheTerminal) {
  ProgressBar bar = Make(true, 40);
  clock_.AdvanceNs(kSecond);
  bar.Update("é é é é é é é é é é é é é é é é é é é é", 0.5);
  ASSERT_EQ(written_.size(), 1u);
  EXPECT_LE(written_[0].size(), 39u + 5);
  EXPECT_NE(static_cast<unsigned char>(written_[0].back()), 0xC3u);
}

TEST_F(ProgressBarTest, ElsewhereALineForEachPhaseAndNowAndThen) {
  ProgressBar bar = Make(false);
  clock_.AdvanceNs(kSecond);
  bar.Update("loading", 0.25);
  bar.Update("loading", 0.30);
  clock_.AdvanceNs(kSecond);
  bar.Update("packing", 0.5);
  clock_.AdvanceNs(kSecond);
  bar.Update("packing", 0.6, "3 of 5");
  EXPECT_EQ(written_,
            (std::vector<std::string>{"25 % loading, 3 s left\n", "50 % packing, 2 s left\n"}));
  clock_.AdvanceNs(20 * kSecond);
  bar.Update("packing", 2.0, "5 of 5");
  EXPECT_EQ(written_.back(), "100 % packing: 5 of 5\n");
  bar.Finish();
  EXPECT_EQ(written_.size(), 3u);
}

}  // namespace
}  // namespace firesteel
