// The documented streams of other servers (testdata/), read whole, cut at every byte, and byte by
// byte.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/mapped_file.h"
#include "bench/completion_stream.h"

namespace firesteel {
namespace {

using ::testing::HasSubstr;

struct Expected {
  const char* file;
  const char* text;
  std::optional<int32_t> prompt, cached, completion;
  const char* finish;
  std::vector<int32_t> tokens;  // of each burst, every event being read by itself
  BurstBasis basis;
  size_t content_event;  // the event (from 0) that first shows content; SIZE_MAX: none does
};

const std::vector<Expected>& Streams() {
  static const std::vector<Expected> streams = {
      {"vllm_completions.sse",
       " The café is open.",
       7,
       4,
       6,
       "length",
       {1, 1, 2, 1, 1},
       BurstBasis::kTokenIds,
       0},
      {"vllm_chat_reasoning.sse",
       "Let me see.\n42",
       12,
       {},
       8,
       "stop",
       {2, 3, 2, 1},
       BurstBasis::kUsage,
       3},
      {"vllm_chat_tools.sse",
       "get_weather{\"city\": \"Rome\"}",
       90,
       {},
       12,
       "tool_calls",
       {1, 1, 1},
       BurstBasis::kChunk,
       SIZE_MAX},
      {"sglang_generate.sse",
       "Rome is not built in a day",
       5,
       3,
       9,
       "length",
       {1, 1, 3, 1, 3},
       BurstBasis::kUsage,
       0},
      {"sglang_generate_delta.sse",
       "Rome is not built in a day",
       5,
       3,
       9,
       "stop",
       {1, 1, 3, 1, 3},
       BurstBasis::kUsage,
       0},
      {"sglang_chat.sse", "Hi there", {}, {}, {}, "stop", {1, 1}, BurstBasis::kChunk, 1},
      {"llama_server_completions.sse",
       "Berlin wall",
       4,
       {},
       3,
       "length",
       {1, 1, 1},
       BurstBasis::kChunk,
       0},
      {"llama_server_chat.sse", "Eins", 9, {}, 2, "stop", {1, 1}, BurstBasis::kChunk, 1},
  };
  return streams;
}

std::string Bytes(const std::string& file) {
  const auto text = ReadFile(std::string(FIRESTEEL_SOURCE_DIR "/src/bench/testdata/") + file);
  EXPECT_TRUE(text.ok()) << text.status().message();
  return text.ok() ? *text : "";
}

RequestRecord Read(const std::vector<std::string_view>& pieces) {
  RequestRecord record;
  CompletionStream stream(&record);
  int64_t now = 0;
  for (const std::string_view piece : pieces) stream.OnBytes(piece, ++now);
  stream.OnDone(200, "", ++now);
  return record;
}

void ExpectSame(const RequestRecord& record, const Expected& e) {
  EXPECT_TRUE(record.ok()) << record.error;
  EXPECT_EQ(record.text, e.text);
  EXPECT_EQ(record.prompt_tokens, e.prompt);
  EXPECT_EQ(record.cached_tokens, e.cached);
  EXPECT_EQ(record.completion_tokens, e.completion);
  EXPECT_EQ(record.finish_reason, e.finish);
  int32_t sum = 0, want = 0;
  for (const Burst& burst : record.bursts) sum += burst.tokens;
  for (const int32_t n : e.tokens) want += n;
  EXPECT_EQ(sum, want);
}

TEST(ServerStreamsTest, EventByEvent) {
  for (const Expected& e : Streams()) {
    SCOPED_TRACE(e.file);
    const std::string bytes = Bytes(e.file);
    std::vector<std::string_view> events;
    for (size_t at = 0; at < bytes.size();) {
      const size_t end = bytes.find("\n\n", at);
      const size_t next = end == std::string::npos ? bytes.size() : end + 2;
      events.push_back(std::string_view(bytes).substr(at, next - at));
      at = next;
    }
    const RequestRecord record = Read(events);
    ExpectSame(record, e);
    EXPECT_EQ(record.burst_basis, e.basis);
    std::vector<int32_t> tokens;
    for (const Burst& burst : record.bursts) tokens.push_back(burst.tokens);
    EXPECT_EQ(tokens, e.tokens);
    if (e.content_event == SIZE_MAX) {
      EXPECT_FALSE(record.content_ns.has_value());
    } else {
      EXPECT_EQ(record.content_ns, static_cast<int64_t>(e.content_event + 1));
    }
  }
}

TEST(ServerStreamsTest, CutAtEveryByte) {
  for (const Expected& e : Streams()) {
    SCOPED_TRACE(e.file);
    const std::string bytes = Bytes(e.file);
    for (size_t cut = 0; cut <= bytes.size(); ++cut) {
      SCOPED_TRACE(cut);
      const std::string_view all = bytes;
      ExpectSame(Read({all.substr(0, cut), all.substr(cut)}), e);
      if (HasFailure()) return;
    }
    std::vector<std::string_view> single;
    for (size_t i = 0; i < bytes.size(); ++i)
      single.push_back(std::string_view(bytes).substr(i, 1));
    ExpectSame(Read(single), e);
  }
}

TEST(ServerStreamsTest, LineEndsCommentsAndFieldsDoNotMatter) {
  for (const Expected& e : Streams()) {
    SCOPED_TRACE(e.file);
    const std::string bytes = Bytes(e.file);
    for (const char* end : {"\r\n", "\r"}) {
      std::string other = "\xEF\xBB\xBF: ping" + std::string(end) + end;
      for (const char c : bytes) {
        if (c == '\n')
          other += end;
        else
          other += c;
      }
      ExpectSame(Read({other}), e);
      std::vector<std::string_view> single;
      for (size_t i = 0; i < other.size(); ++i)
        single.push_back(std::string_view(other).substr(i, 1));
      ExpectSame(Read(single), e);
    }
    std::string tight;
    for (size_t i = 0; i < bytes.size(); ++i) {
      tight += bytes[i];
      if (bytes.compare(i, 6, "data: ") == 0 && (i == 0 || bytes[i - 1] == '\n')) {
        tight += "ata:";
        i += 5;
      }
    }
    ExpectSame(Read({"id: 1\nretry: 10\nevent: message\n" + tight}), e);
  }
}

TEST(ServerStreamsTest, AnErrorAfterTokensFailsTheRequest) {
  const std::string bytes = Bytes("vllm_error.sse");
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    const std::string_view all = bytes;
    const RequestRecord record = Read({all.substr(0, cut), all.substr(cut)});
    EXPECT_EQ(record.failure, Failure::kInStreamError);
    EXPECT_THAT(record.error, HasSubstr("EngineCore encountered an issue."));
  }
}

TEST(ServerStreamsTest, ACutStreamIsNeverASuccess) {
  for (const Expected& e : Streams()) {
    SCOPED_TRACE(e.file);
    const std::string bytes = Bytes(e.file);
    const size_t finish = bytes.find(
        "\"finish_reason\": " +
        std::string(e.file[0] == 's' && std::string(e.file).find("generate") != std::string::npos
                        ? "{"
                        : "\"" + std::string(e.finish)));
    ASSERT_NE(finish, std::string::npos);
    for (size_t cut = 0; cut < finish; cut += 7) {
      const RequestRecord record = Read({std::string_view(bytes).substr(0, cut)});
      EXPECT_EQ(record.failure, Failure::kTruncated) << cut << ": " << record.error;
    }
  }
}

TEST(ServerStreamsTest, AnswersThatAreNoStream) {
  RequestRecord record =
      Read({R"({"id":"x","choices":[{"text":"all of it","finish_reason":"stop"}],)"
            R"("usage":{"prompt_tokens":2,"completion_tokens":3}})"});
  EXPECT_TRUE(record.ok()) << record.error;
  EXPECT_TRUE(record.not_streamed);
  EXPECT_EQ(record.OutputTokens(), 3);
  EXPECT_FALSE(record.Ttft().has_value());
  record = Read({R"({"object":"error","message":"no such model","code":404})"});
  EXPECT_EQ(record.failure, Failure::kInStreamError);
  EXPECT_THAT(record.error, HasSubstr("no such model"));
  EXPECT_EQ(Read({"{\"choices\":"}).failure, Failure::kProtocol);
}

TEST(ServerStreamsTest, OddEndings) {
  const std::string token = "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":null}]}\n\n";
  // [DONE] without a blank line, and bytes behind it.
  RequestRecord record = Read({token + "data: [DONE]"});
  EXPECT_TRUE(record.ok()) << record.error;
  EXPECT_TRUE(record.unterminated_event);
  record = Read({token + "data: [DONE]\n\nrubbish\n\ndata: {}}\n\n"});
  EXPECT_TRUE(record.ok()) << record.error;
  // An event named error, whatever it holds.
  record = Read({token + "event: error\ndata: {\"message\":\"gone\"}\n\ndata: [DONE]\n\n"});
  EXPECT_EQ(record.failure, Failure::kInStreamError);
  EXPECT_EQ(record.error, "error in the stream: gone");
  // Usage first, null, and last; the last that is not null counts.
  record = Read({"data: {\"choices\":[],\"usage\":{\"completion_tokens\":9}}\n\n" + token +
                 "data: {\"choices\":[],\"usage\":{\"completion_tokens\":1}}\n\n"
                 "data: {\"choices\":[],\"usage\":null}\n\ndata: [DONE]\n\n"});
  EXPECT_EQ(record.completion_tokens, 1);
  // A count of 0 beside text was not counted.
  record = Read({token + "data: {\"choices\":[],\"usage\":{\"completion_tokens\":0}}\n\n"
                         "data: [DONE]\n\n"});
  EXPECT_FALSE(record.completion_tokens.has_value());
  EXPECT_STREQ(record.OutputCountBasis(), "chunks");
}

TEST(BurstsTest, SharesOutTheServersCount) {
  EXPECT_EQ(ShareOut(10, {1, 1, 2}), (std::vector<int32_t>{3, 3, 4}));
  EXPECT_EQ(ShareOut(3, {5, 0, 9}), (std::vector<int32_t>{1, 1, 1}));
  EXPECT_EQ(ShareOut(7, {0, 1, 0}), (std::vector<int32_t>{1, 5, 1}));
  RequestRecord record;
  record.text = "abcdefghij";
  record.bursts = {{1, 1, 1, 2}, {2, 1, 1, 8}};
  record.completion_tokens = 6;
  RequestRecord few = record;
  RefineBursts(nullptr, &record);
  EXPECT_EQ(record.burst_basis, BurstBasis::kBytes);
  EXPECT_EQ(record.bursts[0].tokens, 2);
  EXPECT_EQ(record.bursts[1].tokens, 4);
  RequestRecord tokenized = few;
  RefineBursts([](std::string_view text) { return text == "ab" ? 3 : 3; }, &tokenized);
  EXPECT_EQ(tokenized.burst_basis, BurstBasis::kTokenizer);
  EXPECT_EQ(tokenized.bursts[0].tokens, 3);
  few.completion_tokens = 1;
  RefineBursts(nullptr, &few);
  EXPECT_EQ(few.burst_basis, BurstBasis::kChunk);
}

}  // namespace
}  // namespace firesteel
