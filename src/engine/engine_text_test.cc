// What ends a text, and what of it is shown. The fake target is told what to say.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "engine/test_engine.h"

namespace firesteel {
namespace {

constexpr int32_t kPromptLength = 5;
constexpr int32_t kStop = kFirstWordId + 1;  // "STOP"

std::vector<int32_t> Bytes(std::string_view text) {
  std::vector<int32_t> tokens;
  for (char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

// Runs one request whose target says `said`, then "z" for ever; once per way of drafting, all with
// the same outcome.
Outcome Say(std::vector<int32_t> said, SamplingParams sampling) {
  sampling.temperature = 0;
  std::optional<Outcome> first;
  for (int32_t max_draft : {0, 1, 3, 7}) {
    for (FakeDraftKind kind : {FakeDraftKind::kRight, FakeDraftKind::kMixed}) {
      TestConfig config;
      config.with_tokenizer = true;
      config.model.vocab_size = kFirstWordId + 4;
      config.model.eos_ids = {kEosId};
      config.model.script = [&said](int64_t position) {
        const auto i = static_cast<size_t>(position - kPromptLength);
        return i < said.size() ? said[i] : int32_t{'z'};
      };
      config.drafter.kind = kind;
      config.drafter.max_tokens = max_draft;
      TestEngine engine(config);
      engine.Submit(MakePrompt(1, kPromptLength, 200), sampling);
      engine.RunAll();
      engine.ExpectAllEnded();
      const Outcome& outcome = engine.outcome(0);
      if (!first) first = outcome;
      EXPECT_EQ(outcome.tokens, first->tokens) << "drafts of " << max_draft;
      EXPECT_EQ(outcome.text, first->text) << "drafts of " << max_draft;
      EXPECT_EQ(outcome.finish, first->finish);
      EXPECT_EQ(outcome.stop_reason, first->stop_reason);
    }
  }
  return *first;
}

SamplingParams Params(int32_t max_tokens = 30) {
  SamplingParams sampling;
  sampling.max_tokens = max_tokens;
  return sampling;
}

TEST(EngineText, EndTokenCountsAndIsNotShown) {
  std::vector<int32_t> said = Bytes("Hello");
  said.push_back(kEosId);
  const Outcome outcome = Say(said, Params());
  EXPECT_EQ(outcome.text, "Hello");
  EXPECT_EQ(outcome.tokens, said);
  EXPECT_EQ(outcome.finish, FinishReason::kStop);
  EXPECT_EQ(outcome.stop_reason, "");
}

TEST(EngineText, IgnoredEndTokenGoesOn) {
  std::vector<int32_t> said = Bytes("Hi");
  said.push_back(kEosId);
  SamplingParams sampling = Params(5);
  sampling.ignore_eos = true;
  const Outcome outcome = Say(said, sampling);
  EXPECT_EQ(outcome.text, "Hizz");
  EXPECT_EQ(outcome.tokens.size(), 5u);
  EXPECT_EQ(outcome.finish, FinishReason::kLength);
}

TEST(EngineText, StopTokenIsNamed) {
  SamplingParams sampling = Params();
  sampling.stop_token_ids = {'!'};
  Outcome outcome = Say(Bytes("Go! on"), sampling);
  EXPECT_EQ(outcome.text, "Go");
  EXPECT_EQ(outcome.tokens.size(), 3u);
  EXPECT_EQ(outcome.stop_reason, "33");
  sampling.include_stop_in_output = true;
  EXPECT_EQ(Say(Bytes("Go! on"), sampling).text, "Go!");
}

// The end token's row is computed where it was an accepted draft, and is never computed without
// drafts; here it would fill a block.
TEST(EngineText, ACutLeavesThePrefixCacheThatPlainDecodingLeaves) {
  for (int32_t max_draft : {0, 1, 3, 7}) {
    TestConfig config;
    config.model.vocab_size = 256;
    config.model.script = [](int64_t position) {
      return position == 15 ? int32_t{'!'} : static_cast<int32_t>('a' + position);
    };
    config.drafter.max_tokens = max_draft;
    TestEngine engine(config);
    SamplingParams sampling = Params();
    sampling.temperature = 0;
    sampling.stop_token_ids = {'!'};
    const std::vector<int32_t> prompt = MakePrompt(1, kPromptLength, 200);
    engine.Submit(prompt, sampling);
    engine.RunAll();
    std::vector<int32_t> next = prompt;
    next.insert(next.end(), engine.outcome(0).tokens.begin(), engine.outcome(0).tokens.end());
    ASSERT_EQ(next.size(), 16u);
    next.push_back('?');
    engine.Submit(next, sampling);
    engine.RunAll();
    engine.ExpectAllEnded();
    EXPECT_EQ(engine.outcome(1).usage.cached_tokens, 0) << "drafts of " << max_draft;
  }
}

TEST(EngineText, StopStringAcrossRounds) {
  SamplingParams sampling = Params();
  sampling.stop = {"never", "###"};
  Outcome outcome = Say(Bytes("one ## two ### three"), sampling);
  EXPECT_EQ(outcome.text, "one ## two ");
  EXPECT_EQ(outcome.tokens, Bytes("one ## two ###"));
  EXPECT_EQ(outcome.finish, FinishReason::kStop);
  EXPECT_EQ(outcome.stop_reason, "###");
  sampling.include_stop_in_output = true;
  EXPECT_EQ(Say(Bytes("one ## two ### three"), sampling).text, "one ## two ###");
}

TEST(EngineText, StopStringInsideATokenCutsTheTextThere) {
  std::vector<int32_t> said = Bytes("xy");
  said.push_back(kStop);
  said.push_back('q');
  SamplingParams sampling = Params();
  sampling.stop = {"yST"};
  const Outcome outcome = Say(said, sampling);
  EXPECT_EQ(outcome.text, "x");
  EXPECT_EQ(outcome.tokens.size(), 3u);
}

TEST(EngineText, HeldBackTextComesOutAtTheEnd) {
  SamplingParams sampling = Params(6);
  sampling.stop = {"###"};
  const Outcome outcome = Say(Bytes("abcd##"), sampling);
  EXPECT_EQ(outcome.text, "abcd##");
  EXPECT_EQ(outcome.finish, FinishReason::kLength);
}

TEST(EngineText, StopStringOnTheLastTokenIsAStop) {
  SamplingParams sampling = Params(6);
  sampling.stop = {"f"};
  EXPECT_EQ(Say(Bytes("abcdef"), sampling).finish, FinishReason::kStop);
}

TEST(EngineText, MinTokensMasksEndTokensAndIgnoresStopStrings) {
  // The script wants <eos> as the second token; masked, the next likeliest is said instead. Tokens
  // 3 and 4 are stop strings, and the fourth is still one that must be.
  std::vector<int32_t> said = {'a', kEosId, '#', '#', 'c', '#', kEosId};
  SamplingParams sampling = Params();
  sampling.min_tokens = 4;
  sampling.stop = {"#"};
  const Outcome outcome = Say(said, sampling);
  EXPECT_EQ(outcome.tokens.size(), 6u);
  EXPECT_NE(outcome.tokens[1], kEosId);
  EXPECT_EQ(outcome.stop_reason, "#");
  EXPECT_EQ(outcome.text.back(), 'c');
  sampling.stop.clear();
  EXPECT_EQ(Say(said, sampling).tokens.size(), 7u);
}

TEST(EngineText, CharactersAreNeverSplit) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x94\xA5z";
  const Outcome outcome = Say(Bytes(text), Params(static_cast<int32_t>(text.size())));
  EXPECT_EQ(outcome.text, text);
  // An end in the middle of one shows that something was there.
  EXPECT_EQ(Say(Bytes(text), Params(2)).text, "a\xEF\xBF\xBD");
}

TEST(EngineText, TokensBehindADraftedEndAreNeitherVerifiedNorCounted) {
  TestConfig config;
  config.model.eos_ids = {3};
  config.model.script = [](int64_t position) { return position == 12 ? 3 : 8; };
  config.drafter.max_tokens = config.options.speculation.tokens = 7;
  TestEngine engine(config);
  SamplingParams sampling = Params(40);
  sampling.temperature = 0;
  engine.Submit(MakePrompt(1, 10, 64), sampling);
  engine.RunAll();
  engine.ExpectAllEnded();
  // Prefill says position 10; the round drafts 11 … 17 and keeps 11 and 12 of them.
  const EngineStats stats = engine.engine().Stats();
  EXPECT_EQ(engine.outcome(0).tokens, (std::vector<int32_t>{8, 8, 3}));
  EXPECT_EQ(stats.spec_drafted, 7);
  EXPECT_EQ(stats.spec_invalidated_eos, 5);
  EXPECT_EQ(stats.spec_rounds_per_length, (std::vector<int64_t>{1, 0, 1}));
  EXPECT_EQ(stats.spec_verified, 2);
  EXPECT_EQ(stats.spec_accepted, 2);
  EXPECT_EQ(stats.spec_cut_by_stop, 1);  // the bonus behind the end
}

TEST(EngineText, AcceptedTokensBehindAStopStringAreCutAndCounted) {
  TestConfig config;
  config.with_tokenizer = true;
  config.model.vocab_size = kFirstWordId + 4;
  config.model.script = [](int64_t position) { return position == 7 ? '#' : 'a'; };
  config.drafter.max_tokens = config.options.speculation.tokens = 6;
  TestEngine engine(config);
  SamplingParams sampling = Params(40);
  sampling.temperature = 0;
  sampling.stop = {"#"};
  engine.Submit(MakePrompt(1, 5, 64), sampling);
  engine.RunAll();
  engine.ExpectAllEnded();
  EXPECT_EQ(engine.outcome(0).text, "aa");
  EXPECT_EQ(engine.outcome(0).tokens.size(), 3u);
  // Position 5 by the prefill; then 6 … 11 and a bonus, of which 6 and 7 stay.
  EXPECT_EQ(engine.engine().Stats().spec_accepted, 6);
  EXPECT_EQ(engine.engine().Stats().spec_cut_by_stop, 5);
}

}  // namespace
}  // namespace firesteel
