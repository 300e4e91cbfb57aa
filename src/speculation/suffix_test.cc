#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "speculation/drafters.h"
#include "speculation/suffix_index_internal.h"
#include "speculation/suffix_pools_internal.h"
#include "speculation/test_target.h"

namespace firesteel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Tokens = std::vector<int32_t>;

constexpr uint64_t kSeed = 1234;

SuffixIndex IndexOf(const Tokens& text) {
  SuffixIndex index(kSeed);
  for (const int32_t token : text) index.Append(token);
  return index;
}

// The same question asked of the text itself: every occurrence, compared token by token.
SuffixDraft ByHand(const Tokens& text, int32_t match_length, const SuffixLimits& limits,
                   int32_t max_tokens) {
  SuffixDraft draft;
  draft.match_length = match_length;
  const auto m = static_cast<size_t>(match_length);
  std::vector<size_t> going;  // newest first
  for (size_t next = text.size() - 1; next >= m; --next) {
    if (std::equal(text.end() - match_length, text.end(),
                   text.begin() + static_cast<std::ptrdiff_t>(next - m)))
      going.push_back(next);
  }
  const auto most = static_cast<size_t>(
      std::min<double>(std::min(max_tokens, limits.max_depth),
                       std::max(1.0, std::floor(limits.max_spec_factor * match_length))));
  Tokens longer = text;
  double path = 1;
  while (draft.tokens.size() < most && !going.empty()) {
    std::map<int32_t, int32_t> counts;
    int32_t best = -1;
    for (const size_t p : going) ++counts[longer[p]];
    for (const size_t p : going) {
      if (best < 0 || counts[longer[p]] > counts[best]) best = longer[p];
    }
    const double chance = counts[best] / static_cast<double>(going.size());
    path *= chance;
    if (path < limits.min_token_prob) break;
    std::erase_if(going, [&](size_t p) { return longer[p] != best; });
    for (size_t& p : going) ++p;
    longer.push_back(best);
    draft.tokens.push_back(best);
    draft.chances.push_back(static_cast<float>(chance));
  }
  return draft;
}

TEST(SuffixIndex, SharesOfWhatFollowed) {
  const SuffixLimits loose{.max_depth = 24, .max_spec_factor = 4, .min_token_prob = 0.1};
  // Behind 1 2: 3 three times, 4 once.
  const SuffixIndex index = IndexOf({1, 2, 3, 9, 1, 2, 3, 8, 1, 2, 4, 7, 1, 2, 3, 9, 1, 2});
  const Tokens context{1, 2};
  const SuffixDraft draft = index.Find(context, loose, 2);
  EXPECT_THAT(draft.tokens, ElementsAre(3, 9));
  EXPECT_FLOAT_EQ(draft.chances[0], 0.75f);
  EXPECT_FLOAT_EQ(draft.chances[1], 2 / 3.0f);
  EXPECT_NEAR(draft.ExpectedAccepted(), 0.75 + 0.5, 1e-6);
  SuffixLimits strict = loose;
  strict.min_token_prob = 0.6;  // of the path: 0.75, then 0.5
  EXPECT_THAT(index.Find(context, strict, 5).tokens, ElementsAre(3));
  strict.min_token_prob = 0.8;
  EXPECT_TRUE(index.Find(context, strict, 5).tokens.empty());
  EXPECT_TRUE(index.Find(Tokens{77}, loose, 5).tokens.empty());
  EXPECT_TRUE(index.Find(Tokens{}, loose, 5).tokens.empty());
}

// The longer the match, the longer the draft.
TEST(SuffixIndex, LengthFollowsTheMatch) {
  Tokens text;
  for (int32_t i = 0; i < 60; ++i) text.push_back(100 + i);
  const SuffixIndex index = IndexOf(text);
  for (const double factor : {0.5, 1.0, 2.0}) {
    const SuffixLimits limits{.max_depth = 24, .max_spec_factor = factor, .min_token_prob = 0.1};
    for (int32_t match = 1; match <= 30; ++match) {
      Tokens context{7};
      for (int32_t i = 0; i < match; ++i) context.push_back(100 + 31 - match + i);
      const SuffixDraft draft = index.Find(context, limits, 99);
      const int32_t seen = std::min(match, 24);
      EXPECT_EQ(draft.match_length, seen);
      EXPECT_EQ(draft.tokens.size(),
                static_cast<size_t>(std::clamp(static_cast<int32_t>(factor * seen), 1, 24)));
      EXPECT_EQ(draft.tokens[0], 131);
    }
  }
}

// Random texts over few tokens, where everything has occurred: the index gives what the text says,
// as it grows, for the match that promises most.
TEST(SuffixIndex, EqualsTheTextItself) {
  std::mt19937 rng(7);
  for (const int32_t vocab : {2, 3, 10, 40}) {
    const SuffixLimits limits{.max_depth = 12, .max_spec_factor = 1.5, .min_token_prob = 0.1};
    Tokens text;
    SuffixIndex index(kSeed);
    int32_t drafts = 0;
    // Fewer occurrences than are looked at.
    for (int32_t i = 0; i < 120; ++i) {
      text.push_back(static_cast<int32_t>(rng() % static_cast<uint32_t>(vocab)));
      index.Append(text.back());
      const SuffixDraft draft = index.Find(text, limits, 8);
      if (draft.match_length == 0) continue;
      ++drafts;
      const SuffixDraft expected = ByHand(text, draft.match_length, limits, 8);
      ASSERT_EQ(draft.tokens, expected.tokens) << vocab << " at " << i;
      ASSERT_EQ(draft.chances, expected.chances) << vocab << " at " << i;
      for (int32_t other = 1; other <= 1; ++other) {
        ASSERT_GE(draft.ExpectedAccepted() + 1e-9,
                  ByHand(text, other, limits, 8).ExpectedAccepted());
      }
    }
    EXPECT_GT(drafts, 40) << vocab;
  }
}

// A repetition goes on beyond the end of the text.
TEST(SuffixIndex, RepetitionsGoOn) {
  const Tokens text{5, 6, 7, 5, 6, 7, 5, 6, 7, 5};
  const SuffixIndex index = IndexOf(text);
  const SuffixLimits limits{.max_depth = 24, .max_spec_factor = 2, .min_token_prob = 0.1};
  EXPECT_THAT(index.Find(text, limits, 7).tokens, ElementsAre(6, 7, 5, 6, 7, 5, 6));
}

TEST(SuffixIndex, NothingReachesOverABorder) {
  SuffixIndex index(kSeed);
  for (const int32_t token : {1, 2, 3}) index.Append(token);
  index.EndText();
  for (const int32_t token : {4, 5, 6}) index.Append(token);
  index.EndText();
  const SuffixLimits limits{.max_depth = 24, .max_spec_factor = 4, .min_token_prob = 0};
  EXPECT_THAT(index.Find(Tokens{2}, limits, 9).tokens, ElementsAre(3));
  EXPECT_TRUE(index.Find(Tokens{3}, limits, 9).tokens.empty());
  EXPECT_EQ(index.Find(Tokens{3, 4}, limits, 9).match_length, 1);
}

// Dropping the front while the ring goes round and shrinks: what is left is found, what is gone is
// not.
TEST(SuffixIndex, ForgetsItsFront) {
  SuffixIndex index(kSeed);
  const SuffixLimits limits{.max_depth = 24, .max_spec_factor = 4, .min_token_prob = 0};
  int64_t most = 0;
  for (int32_t text = 0; text < 500; ++text) {
    for (int32_t i = 0; i < 9; ++i) index.Append(text * 10 + i);
    index.EndText();
    if (text >= 50) index.DropFront(10);
    most = std::max(most, index.bytes());
    const int32_t oldest = std::max(0, text - 49);
    EXPECT_THAT(index.Find(Tokens{oldest * 10}, limits, 2).tokens,
                ElementsAre(oldest * 10 + 1, oldest * 10 + 2));
    if (oldest > 0) {
      EXPECT_TRUE(index.Find(Tokens{oldest * 10 - 5}, limits, 2).tokens.empty());
    }
  }
  EXPECT_LE(most, 1024 * 40);
  index.DropFront(index.end() - index.begin() - 5);
  for (int32_t i = 0; i < 8; ++i) index.DropFront(0);
  EXPECT_LT(index.bytes(), most / 4);
  index.DropFront(100);
  EXPECT_EQ(index.begin(), index.end());
}

TEST(SuffixPools, OneTenantNeverSeesAnother) {
  SuffixPools pools({}, kSeed);
  const SuffixLimits limits{.max_depth = 24, .max_spec_factor = 4, .min_token_prob = 0};
  pools.Add("a", Tokens{1, 2, 3, 4});
  pools.Add("b", Tokens{1, 2, 9, 9});
  EXPECT_EQ(pools.Find("a", Tokens{1, 2}, limits, 2).tokens, (Tokens{3, 4}));
  EXPECT_EQ(pools.Find("b", Tokens{1, 2}, limits, 2).tokens, (Tokens{9, 9}));
  EXPECT_TRUE(pools.Find("c", Tokens{1, 2}, limits, 2).tokens.empty());
  EXPECT_TRUE(pools.Find("", Tokens{1, 2}, limits, 2).tokens.empty());
}

// The tenant that has not drafted for longest loses its oldest text first.
TEST(SuffixPools, StaysWithinItsBudget) {
  const SuffixLimits limits{.max_depth = 24, .max_spec_factor = 4, .min_token_prob = 0};
  SuffixPools few({.max_texts = 3, .max_bytes = int64_t{1} << 30}, kSeed);
  few.Add("a", Tokens{1, 2});
  few.Add("b", Tokens{1, 3});
  few.Add("a", Tokens{5, 6});
  EXPECT_FALSE(few.Find("b", Tokens{1}, limits, 1).tokens.empty());
  few.Add("c", Tokens{1, 4});
  EXPECT_EQ(few.num_texts(), 3);
  EXPECT_TRUE(few.Find("a", Tokens{1}, limits, 1).tokens.empty());
  EXPECT_EQ(few.Find("a", Tokens{5}, limits, 1).tokens, Tokens{6});
  EXPECT_EQ(few.Find("b", Tokens{1}, limits, 1).tokens, Tokens{3});

  constexpr int64_t kBytes = 1 << 17;
  SuffixPools small({.max_texts = 1 << 20, .max_bytes = kBytes}, kSeed);
  for (int32_t i = 0; i < 2000; ++i) {
    Tokens text;
    for (int32_t k = 0; k < 20 + i % 50; ++k) text.push_back(i * 100 + k);
    small.Add("tenant " + std::to_string(i % 7), text);
    ASSERT_LE(small.bytes(), kBytes);
  }
  const int64_t before = small.num_texts();
  EXPECT_GT(before, 7);
  Tokens huge(100'000);
  for (size_t k = 0; k < huge.size(); ++k) huge[k] = static_cast<int32_t>(k);
  small.Add("huge", huge);  // more than there is room for
  EXPECT_EQ(small.num_texts(), before);
}

class SuffixTest : public ::testing::Test {
 protected:
  std::unique_ptr<Drafter> Make(const std::string& config = "{}", int32_t tokens = 0) {
    Result<std::unique_ptr<Drafter>> made = Try(config, tokens);
    FS_CHECK(made.ok(), "{}", made.status().message());
    return *std::move(made);
  }
  Result<std::unique_ptr<Drafter>> Try(const std::string& config, int32_t tokens = 0) {
    DrafterContext context{.exec = exec_,
                           .target = target_,
                           .max_slots = 3,
                           .options = {.method = "suffix", .model = "", .tokens = tokens},
                           .config = *ParseJson(config, "config")};
    return MakeDrafter(context);
  }
  Draft Propose(Drafter& drafter, SequenceSlot slot, const Tokens& tokens,
                const std::string* tenant, int32_t max_tokens = 24) {
    DraftQuery query;
    query.slot = slot;
    query.tokens = tokens;
    query.max_tokens = max_tokens;
    query.tenant = tenant;
    std::vector<Draft> drafts;
    FS_CHECK(drafter.Propose(exec_, {&query, 1}, NoCache(), workspace_, &drafts).ok());
    return drafts.at(0);
  }
  // A whole life: prompt, then output.
  void Live(Drafter& drafter, SequenceSlot slot, const Tokens& prompt, const Tokens& output,
            const std::string* tenant) {
    Tokens text = prompt;
    for (const int32_t token : output) {
      text.push_back(token);
      CommittedRows rows;
      rows.slot = slot;
      rows.tokens = text;
      rows.tenant = tenant;
      rows.prompt_length = static_cast<int32_t>(prompt.size());
      FS_CHECK(drafter.Observe(exec_, {&rows, 1}, {}, NoCache(), workspace_).ok());
    }
    drafter.Forget(slot);
  }

  ThreadPool pool_{1};
  Exec exec_{pool_};
  BareTarget target_;
  Workspace workspace_;
};

TEST_F(SuffixTest, Info) {
  EXPECT_EQ(Make()->info().name, "suffix");
  EXPECT_EQ(Make()->info().max_tokens, 24);
  EXPECT_EQ(Make("{}", 5)->info().max_tokens, 5);
  EXPECT_EQ(Make(R"({"suffix_decoding_max_tree_depth":9})")->info().max_tokens, 9);
  EXPECT_TRUE(Make()->CacheGroups(DType::kBF16).empty());
}

TEST_F(SuffixTest, DraftsFromItsOwnText) {
  const auto drafter = Make();
  const Draft draft = Propose(*drafter, 1, {1, 2, 3, 4, 5, 6, 1, 2, 3}, nullptr);
  EXPECT_THAT(draft.tokens, ElementsAre(4, 5, 6));
  EXPECT_THAT(draft.confidence, ElementsAre(1, 1, 1));
  EXPECT_TRUE(draft.probs.empty());
  EXPECT_TRUE(draft.parents.empty());
  EXPECT_EQ(Propose(*drafter, 2, {1, 2, 3, 4, 5, 6, 1, 2, 3}, nullptr, 2).tokens.size(), 2u);
  // Another sequence in the same slot.
  drafter->Forget(1);
  EXPECT_TRUE(Propose(*drafter, 1, {1, 2, 3}, nullptr).tokens.empty());
}

TEST_F(SuffixTest, DraftsFromPastOutputsOfTheSameTenant) {
  const std::string a = "key a", b = "key b";
  const auto drafter = Make();
  Live(*drafter, 0, {50, 51, 52}, {10, 11, 12, 13, 14}, &a);
  EXPECT_THAT(Propose(*drafter, 1, {7, 10, 11}, &a).tokens, ElementsAre(12, 13));
  EXPECT_TRUE(Propose(*drafter, 1, {7, 50, 51}, &a).tokens.empty());  // a prompt is not kept
  // Not for another key, nor for nobody's request, nor after many of them.
  EXPECT_TRUE(Propose(*drafter, 2, {7, 10, 11}, &b).tokens.empty());
  drafter->Forget(2);
  EXPECT_TRUE(Propose(*drafter, 2, {7, 10, 11}, nullptr).tokens.empty());
  Live(*drafter, 0, {50}, {10, 11, 99, 98}, &b);
  drafter->Forget(1);
  EXPECT_THAT(Propose(*drafter, 1, {7, 10, 11}, &a).tokens, ElementsAre(12, 13));
  drafter->Forget(2);
  EXPECT_THAT(Propose(*drafter, 2, {7, 10, 11}, &b).tokens, ElementsAre(99, 98));
}

// The key decides alone: random texts of two tenants over separate alphabets behind a common one.
TEST_F(SuffixTest, NoTokenOfAnotherKeyIsEverDrafted) {
  const std::string keys[] = {"first", "second"};
  const auto drafter = Make(R"({"suffix_decoding_max_cached_bytes":200000})");
  std::mt19937 rng(3);
  int32_t drafted = 0;
  for (int32_t round = 0; round < 400; ++round) {
    const auto who = static_cast<int32_t>(rng() % 2);
    const auto text = [&](int32_t length) {
      Tokens tokens;
      for (int32_t i = 0; i < length; ++i) {
        const auto x = static_cast<int32_t>(rng() % 20);
        tokens.push_back(x < 10 ? x : 1000 * (who + 1) + x);  // below 10: of both
      }
      return tokens;
    };
    const Tokens prompt = text(12);
    Live(*drafter, who, prompt, text(30), &keys[who]);
    const Draft draft = Propose(*drafter, 2, text(5), &keys[who]);
    drafter->Forget(2);
    for (const int32_t token : draft.tokens) {
      ASSERT_TRUE(token < 10 || token / 1000 == who + 1) << token;
      ++drafted;
    }
  }
  EXPECT_GT(drafted, 300);
}

// Whose text nobody says is kept for nobody: warm-up, for one.
TEST_F(SuffixTest, TextsOfNobodyAreNotKept) {
  const std::string nobody;
  const auto drafter = Make();
  Live(*drafter, 0, {50}, {10, 11, 12, 13}, nullptr);
  EXPECT_TRUE(Propose(*drafter, 1, {10, 11}, &nobody).tokens.empty());
}

TEST_F(SuffixTest, Options) {
  const std::string a = "a";
  const auto none = Make(R"({"suffix_decoding_max_cached_requests":0})");
  Live(*none, 0, {50}, {10, 11, 12, 13}, &a);
  EXPECT_TRUE(Propose(*none, 1, {10, 11}, &a).tokens.empty());
  const auto longer = Make(R"({"suffix_decoding_max_spec_factor":2.5})");
  Live(*longer, 0, {50}, {10, 11, 12, 13, 14, 15, 16, 17}, &a);
  EXPECT_EQ(Propose(*longer, 1, {9, 10, 11}, &a).tokens.size(), 5u);

  const auto error = [&](const char* config) { return Try(config).status().message(); };
  EXPECT_THAT(error(R"({"suffix_decoding_max_tree_depth":0})"),
              HasSubstr("suffix_decoding_max_tree_depth is 0, expected"));
  EXPECT_THAT(error(R"({"suffix_decoding_max_spec_factor":-1})"),
              HasSubstr("suffix_decoding_max_spec_factor is -1, expected 0 to 64"));
  EXPECT_THAT(error(R"({"suffix_decoding_min_token_prob":1.5})"),
              HasSubstr("suffix_decoding_min_token_prob is 1.5, expected 0 to 1"));
  EXPECT_THAT(error(R"({"suffix_decoding_max_cached_bytes":"1G"})"),
              HasSubstr("suffix_decoding_max_cached_bytes"));
  EXPECT_THAT(error(R"({"suffix_decoding_min_token_probs":0.2})"),
              HasSubstr("did you mean suffix_decoding_min_token_prob?"));
}

}  // namespace
}  // namespace firesteel
