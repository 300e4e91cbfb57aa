#include "cli/generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace firesteel {
namespace {

using ::testing::HasSubstr;

// Sends what it is told from a thread of its own, as the real engine does.
class ScriptedEngine : public Engine {
 public:
  explicit ScriptedEngine(std::vector<TokenEvent> events, bool wait_for_cancel = false)
      : events_(std::move(events)), wait_for_cancel_(wait_for_cancel) {}
  ~ScriptedEngine() override {
    if (thread_.joinable()) thread_.join();
  }

  Result<RequestId> Submit(Request request, EventSink sink) override {
    if (request.prompt.empty()) return InvalidArgument("the prompt is empty");
    thread_ = std::thread([this, sink = std::move(sink)] {
      if (wait_for_cancel_) cancelled_.wait(false);
      for (TokenEvent& event : events_) sink(std::move(event));
    });
    return RequestId{7};
  }
  void Cancel(RequestId id) override {
    EXPECT_EQ(id, 7u);
    ++cancels;
    cancelled_ = true;
    cancelled_.notify_all();
  }
  void Drain(int64_t) override {}
  bool ResetPrefixCache() override { return true; }
  EngineStats Stats() const override { return {}; }
  const ModelSummary& Summary() const override { return summary_; }
  const Tokenizer& tokenizer() const override { std::abort(); }
  const EngineOptions& options() const override { return options_; }

  int cancels = 0;

 private:
  std::vector<TokenEvent> events_;
  bool wait_for_cancel_;
  std::atomic<bool> cancelled_ = false;
  std::thread thread_;
  ModelSummary summary_;
  EngineOptions options_;
};

TokenEvent Event(std::vector<int32_t> tokens, std::string text) {
  TokenEvent event;
  event.tokens = std::move(tokens);
  event.text = std::move(text);
  return event;
}

TEST(GenerationTest, JoinsTheTextAndKeepsTheUsage) {
  TokenEvent last = Event({3}, "");
  last.finish = FinishReason::kLength;
  last.usage.completion_tokens = 3;
  ScriptedEngine engine({Event({1, 2}, "ab"), Event({}, "c"), last});
  std::string streamed;
  const auto g = Generate(
      engine, {.prompt = {1}, .sampling = {}}, [&](std::string_view text) { streamed += text; },
      nullptr);
  ASSERT_TRUE(g.ok()) << g.status().message();
  EXPECT_EQ(g->text, "abc");
  EXPECT_EQ(streamed, "abc");
  EXPECT_EQ(g->finish, FinishReason::kLength);
  EXPECT_EQ(g->usage.completion_tokens, 3);
  EXPECT_GT(g->first_token_s, 0);
  EXPECT_GE(g->total_s, g->first_token_s);
}

TEST(GenerationTest, CancelsOnceAndWaitsForTheEnd) {
  TokenEvent last;
  last.finish = FinishReason::kCancelled;
  ScriptedEngine engine({last}, /*wait_for_cancel=*/true);
  const std::atomic<bool> cancel = true;
  const auto g = Generate(engine, {.prompt = {1}, .sampling = {}}, nullptr, &cancel);
  ASSERT_TRUE(g.ok());
  EXPECT_EQ(g->finish, FinishReason::kCancelled);
  EXPECT_EQ(engine.cancels, 1);
}

TEST(GenerationTest, ErrorsComeBack) {
  TokenEvent last;
  last.finish = FinishReason::kError;
  last.error = Internal("a step failed");
  ScriptedEngine engine({last});
  EXPECT_EQ(Generate(engine, {.prompt = {1}, .sampling = {}}, nullptr, nullptr).status().message(),
            "a step failed");
  ScriptedEngine refusing({});
  EXPECT_FALSE(Generate(refusing, {.prompt = {}, .sampling = {}}, nullptr, nullptr).ok());
}

TEST(GenerationTest, TheLastLineHasSpeedAndAcceptance) {
  Generation g;
  g.usage.completion_tokens = 64;
  g.total_s = 2;
  g.first_token_s = 0.12;
  ModelSummary summary;
  EXPECT_EQ(FormatGeneration(g, summary),
            "64 tokens, 32.0 tokens/s, first token after 0.120 s; no speculation");
  summary.spec_method = "dspark";
  summary.spec_tokens = 7;
  EXPECT_THAT(FormatGeneration(g, summary), HasSubstr("dspark: no draft was verified"));
  g.usage.speculation = {
      .rounds = 10, .drafted = 70, .verified = 70, .accepted = 21, .accepted_per_position = {}};
  EXPECT_THAT(FormatGeneration(g, summary),
              HasSubstr("dspark with 7 tokens: acceptance length 3.10, rate 0.30"));
}

}  // namespace
}  // namespace firesteel
