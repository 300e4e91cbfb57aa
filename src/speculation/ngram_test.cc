#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <numeric>
#include <random>

#include "speculation/drafters.h"
#include "speculation/make_internal.h"
#include "speculation/test_target.h"

namespace firesteel {
namespace {

using Tokens = std::vector<int32_t>;

class NgramTest : public testing::Test {
 protected:
  Result<std::unique_ptr<Drafter>> Make(const std::string& config, int32_t tokens = 0) {
    DrafterContext context{
        .exec = exec_, .target = target_, .max_slots = 4, .options = {}, .config = {}};
    context.options.method = "ngram";
    context.options.tokens = tokens;
    context.config = *ParseJson(config, "test");
    return MakeNgram(context);
  }
  void Create(const std::string& config = "{}", int32_t tokens = 0) {
    auto made = Make(config, tokens);
    ASSERT_TRUE(made.ok()) << made.status().message();
    drafter_ = *std::move(made);
  }
  Tokens Propose(const Tokens& tokens, int32_t max_tokens = 100, SequenceSlot slot = 0) {
    const DraftQuery query{.slot = slot, .tokens = tokens, .max_tokens = max_tokens, .noise = {}};
    std::vector<Draft> drafts;
    EXPECT_TRUE(drafter_->Propose(exec_, {&query, 1}, kv_, workspace_, &drafts).ok());
    EXPECT_EQ(drafts.size(), 1u);
    EXPECT_TRUE(drafts[0].probs.empty());  // one-hot
    EXPECT_EQ(drafts[0].confidence.size(), drafts[0].tokens.size());
    return drafts[0].tokens;
  }
  void Observe(const Tokens& tokens, int32_t count, SequenceSlot slot = 0) {
    const CommittedRows rows{.slot = slot, .count = count, .tokens = tokens};
    EXPECT_TRUE(drafter_->Observe(exec_, {&rows, 1}, {}, kv_, workspace_).ok());
  }
  std::string Error(const std::string& config) {
    const auto made = Make(config);
    EXPECT_FALSE(made.ok());
    EXPECT_EQ(made.status().code(), StatusCode::kInvalidArgument);
    return made.status().message();
  }

  ThreadPool pool_{1};
  Exec exec_{pool_};
  BareTarget target_;
  NoCache kv_;
  Workspace workspace_;
  std::unique_ptr<Drafter> drafter_;
};

TEST_F(NgramTest, ProposesWhatFollowedLastTime) {
  Create();
  EXPECT_EQ(drafter_->info().name, "ngram");
  EXPECT_EQ(drafter_->info().max_tokens, 8);
  EXPECT_EQ(Propose({1, 2, 3, 4, 5, 6, 1, 2}, 3), (Tokens{3, 4, 5}));
  EXPECT_EQ(Propose({1, 2, 3, 4, 5, 6, 1, 2}, 1), (Tokens{3}));
}

TEST_F(NgramTest, IsSilentWithoutAMatch) {
  Create();
  EXPECT_EQ(Propose({}), Tokens{});
  EXPECT_EQ(Propose({7}), Tokens{});
  EXPECT_EQ(Propose({1, 2, 3, 4}), Tokens{});
  EXPECT_EQ(Propose({2, 5, 6, 2}), Tokens{});  // one token is below the shortest n-gram
}

TEST_F(NgramTest, TheLongestMatchWins) {
  Create();
  // The last three (8 1 2) stood in front of 30, the last two (1 2) more recently in front of 40.
  EXPECT_EQ(Propose({8, 1, 2, 30, 9, 1, 2, 40, 8, 1, 2}, 1), (Tokens{30}));
}

TEST_F(NgramTest, AmongEqualsTheMostRecentWins) {
  Create();
  EXPECT_EQ(Propose({1, 2, 30, 1, 2, 40, 1, 2}, 1), (Tokens{40}));
}

TEST_F(NgramTest, ARepetitionGoesOnBeyondTheText) {
  Create();
  EXPECT_EQ(Propose({9, 5, 5, 5}, 4), (Tokens{5, 5, 5, 5}));
  EXPECT_EQ(Propose({1, 2, 3, 1, 2, 3}, 7), (Tokens{1, 2, 3, 1, 2, 3, 1}));
}

TEST_F(NgramTest, HonoursItsLimits) {
  Create(R"({"prompt_lookup_max": 3, "prompt_lookup_min": 1, "num_speculative_tokens": 2})");
  EXPECT_EQ(drafter_->info().max_tokens, 2);
  EXPECT_EQ(Propose({2, 5, 6, 2}), (Tokens{5, 6}));
  Create("{}", 12);
  EXPECT_EQ(drafter_->info().max_tokens, 12);
  Create(R"({"num_speculative_tokens": 5})", 12);
  EXPECT_EQ(drafter_->info().max_tokens, 5);
}

TEST_F(NgramTest, SequencesDoNotSeeEachOther) {
  Create();
  EXPECT_EQ(Propose({1, 2, 3, 4, 1, 2}, 2, 0), (Tokens{3, 4}));
  EXPECT_EQ(Propose({9, 9, 8, 1, 2}, 2, 1), Tokens{});
}

TEST_F(NgramTest, ForgetsWithTheSequence) {
  Create();
  EXPECT_EQ(Propose({1, 2, 3, 4, 1, 2}, 2), (Tokens{3, 4}));
  drafter_->Forget(0);
  EXPECT_EQ(Propose({5, 1, 2}), Tokens{});
}

TEST_F(NgramTest, NoticesAnotherTextInItsSlot) {
  Create();
  EXPECT_EQ(Propose({1, 2, 3, 4, 1, 2}, 2), (Tokens{3, 4}));
  EXPECT_EQ(Propose({6, 1, 2}), Tokens{});                       // shorter
  EXPECT_EQ(Propose({7, 1, 2, 8, 8, 8, 1, 2}, 1), (Tokens{8}));  // as long and longer, other tokens
}

TEST_F(NgramTest, NamesWhatIsWrongInItsConfig) {
  EXPECT_EQ(Error(R"({"prompt_lookup_max": "4"})"),
            "speculative config: prompt_lookup_max is a string, expected a 64-bit integer");
  EXPECT_EQ(Error(R"({"prompt_lookup_min": 0})"),
            "speculative config: prompt_lookup_min is 0, expected an integer from 1 to 64");
  EXPECT_EQ(Error(R"({"num_speculative_tokens": 65})"),
            "speculative config: num_speculative_tokens is 65, expected an integer from 1 to 64");
  EXPECT_EQ(Error(R"({"prompt_lookup_min": 5, "prompt_lookup_max": 3})"),
            "speculative config: prompt_lookup_min is 5, expected at most prompt_lookup_max, 3");
  EXPECT_EQ(Error(R"({"prompt_lookup_mx": 3})"),
            "speculative config: \"prompt_lookup_mx\" is no key of the ngram drafter (did you mean "
            "prompt_lookup_max?), expected prompt_lookup_max, prompt_lookup_min or "
            "num_speculative_tokens");
  EXPECT_NE(Error("[]").find("expected an object"), std::string::npos);
}

TEST_F(NgramTest, ADefaultGivesWayToWhatWasSaid) {
  EXPECT_TRUE(Make(R"({"prompt_lookup_max": 1})").ok());
  EXPECT_TRUE(Make(R"({"prompt_lookup_min": 9})").ok());
  EXPECT_TRUE(Make(R"({"method": "ngram", "model": null})").ok());
  EXPECT_TRUE(Make("null").ok());
}

// What the drafter must propose, found by looking at everything.
Tokens BruteForce(const Tokens& tokens, size_t min, size_t max, size_t count) {
  for (size_t n = std::min(max, tokens.size()); n >= min; --n) {
    for (size_t end = tokens.size() - 1; end-- > n - 1;) {
      if (!std::equal(tokens.end() - static_cast<std::ptrdiff_t>(n), tokens.end(),
                      tokens.begin() + static_cast<std::ptrdiff_t>(end + 1 - n))) {
        continue;
      }
      Tokens text = tokens;
      for (size_t i = 0; i < count; ++i) text.push_back(text[end + 1 + i]);
      return {text.begin() + static_cast<std::ptrdiff_t>(tokens.size()), text.end()};
    }
  }
  return {};
}

TEST_F(NgramTest, AgreesWithASearchThroughEverything) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const size_t min = 1 + seed % 3, max = min + seed % 4;
    Create("{\"prompt_lookup_min\": " + std::to_string(min) +
           ", \"prompt_lookup_max\": " + std::to_string(max) + "}");
    Tokens tokens;
    for (int step = 0; step < 120; ++step) {
      for (uint32_t n = 1 + random() % 4; n > 0; --n) {
        tokens.push_back(static_cast<int32_t>(random() % (2 + seed % 5)));
      }
      if (random() % 3 == 0) Observe(tokens, 1);
      if (random() % 2 == 0) {
        ASSERT_EQ(Propose(tokens, 5), BruteForce(tokens, min, max, 5)) << "seed " << seed;
      }
    }
  }
}

// A hundred times as much text at about the same cost per token: a rescan would cost a hundred
// times as much.
TEST_F(NgramTest, CostsTheSamePerTokenInALongText) {
  Create();
  const auto nanoseconds = [&](int32_t length) {
    drafter_->Forget(0);
    std::mt19937 random(1);
    Tokens tokens;
    tokens.reserve(static_cast<size_t>(length));
    const std::clock_t start =
        std::clock();  // of this process alone: neighbours must not fail the test
    for (int32_t i = 0; i < length; ++i) {
      tokens.push_back(static_cast<int32_t>(random() % 300));
      Observe(tokens, 1);
      Propose(tokens, 8);
    }
    return static_cast<double>(std::clock() - start) * (1e9 / CLOCKS_PER_SEC) / length;
  };
  nanoseconds(2000);
  const double few = nanoseconds(2000), many = nanoseconds(200'000);
  EXPECT_LT(many, 30 * few) << few << " against " << many << " ns a token";
}

}  // namespace
}  // namespace firesteel
