// What one request of a benchmark was and how it went. Everything that is reported is computed from
// these.
//
// Times are nanoseconds of clock.h. What was not measured is absent, never 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace firesteel {

// Why a request failed. `short_output` is none of them: such an answer is complete, see
// run_validity.h.
enum class Failure {
  kNone,
  kConnect,
  kTls,
  kHttp4xx,
  kHttp429,
  kHttp5xx,
  kInStreamError,  // an error object after the headers, before or after tokens
  kProtocol,       // what came is not HTTP, not events or not JSON
  kTruncated,      // the stream ended without [DONE] and without a finish reason
  kEmpty,          // it ended well, without a token
  kTimeoutConnect,
  kTimeoutFirst,
  kTimeoutIdle,
  kTimeoutTotal,
  kCancelled,
};

const char* FailureName(Failure failure);  // "in_stream_error"; "none"
std::optional<Failure> FailureFromName(std::string_view name);

// Where the number of tokens in each burst comes from, best first.
enum class BurstBasis { kTokenIds, kUsage, kLogprobs, kTokenizer, kBytes, kChunk };

const char* BurstBasisName(BurstBasis basis);  // "token_ids", "usage", …, "chunk"
std::optional<BurstBasis> BurstBasisFromName(std::string_view name);

// Tokens that became known in one read from the connection. Events that one read completed share
// its time.
struct Burst {
  int64_t time_ns = 0;
  int32_t tokens = 0;
  int32_t events = 1;
  int32_t text_bytes = 0;
};

// One read with events that hold choices, tokens or not: what the public tools time. Not written
// to JSON.
struct ChunkTime {
  int64_t time_ns = 0;
  int32_t events = 0;
  int32_t text_events = 0;  // with generated text
};

// Speculation of one request, where the server reports it.
struct RequestSpeculation {
  int64_t drafts = 0;  // verification steps
  std::optional<int64_t> draft_tokens;
  std::optional<int64_t> accepted_tokens;
};

struct RequestRecord {
  size_t index = 0;  // position in the run
  std::string prompt_id;

  std::optional<int64_t> sched_ns;  // when the load shape wanted the request to go out
  int64_t send_ns = 0;              // just before the request goes to the connection
  // Duration of connect and TLS; 0 on a connection that was open before.
  std::optional<int64_t> connect_ns;
  std::optional<int64_t> head_ns;     // status line and headers complete
  std::optional<int64_t> event_ns;    // first event with choices, token or not
  std::optional<int64_t> content_ns;  // first visible content: no reasoning, no tool call
  int64_t done_ns = 0;                // [DONE], or the end of the response
  std::vector<Burst> bursts;          // first one at the first token; empty without any token
  BurstBasis burst_basis = BurstBasis::kChunk;
  std::vector<ChunkTime> chunks;

  int32_t http_status = 0;  // 0: no complete response
  std::string error;        // "" when the request succeeded
  Failure failure = Failure::kNone;
  std::string finish_reason;
  std::string text;
  std::optional<std::vector<int32_t>> token_ids;  // nullopt when the server gave none
  std::optional<int32_t> prompt_tokens;           // as the server counted
  std::optional<int32_t> cached_tokens;
  std::optional<int32_t> completion_tokens;
  std::optional<int32_t> reasoning_tokens;  // of completion_tokens

  std::optional<int32_t> planned_prompt_tokens;  // as the data set counted
  int32_t requested_tokens = 0;                  // max_tokens; never taken for a measurement
  std::optional<int32_t> retokenized_tokens;     // the text, counted by our own tokenizer
  std::optional<RequestSpeculation> speculation;

  int32_t reconnects = 0;           // sent again on a new connection, the timer running on
  bool unterminated_event = false;  // the last event had no blank line
  bool not_streamed = false;        // answered as one JSON object: no time of the first token

  bool ok() const { return error.empty(); }

  // The server's count, else the number of token ids, else our tokenizer's, else the number of
  // events with text.
  int32_t OutputTokens() const;
  const char* OutputCountBasis() const;  // "usage" | "token_ids" | "retokenized" | "chunks"
  // The server's count, else the data set's.
  std::optional<int32_t> InputTokens() const;

  // Seconds; nullopt where not defined (no token, or one token for Tpot). From send_ns but for
  // those that say "Sched", which count from the time the request was due.
  std::optional<double> Ttft() const;         // to the first token
  std::optional<double> TtftEvent() const;    // to the first event with choices
  std::optional<double> TtftContent() const;  // to the first visible content
  std::optional<double> TtftSched() const;
  std::optional<double> E2e() const;      // to the last token
  std::optional<double> E2eDone() const;  // to the end of the response
  std::optional<double> E2eSched() const;
  std::optional<double> Tpot() const;       // (e2e - ttft) / (tokens - 1)
  std::optional<double> TpotBurst() const;  // (last - first burst) / (tokens - those of the first)
  std::optional<double> ScheduleDelay() const;  // send - sched
  // One sample per token after the first burst: a gap before k tokens counts as k samples of gap /
  // k.
  void AppendItl(std::vector<double>* samples) const;
  // The gaps themselves: what a reader sees.
  void AppendIcl(std::vector<double>* samples) const;
};

// With times in seconds from `origin_ns` (the run's first send), and what earlier versions wrote:
// id, error, input_len, output_len, ttft, tpot, e2el, itls, token_ids, text.
Json RequestRecordJson(const RequestRecord& record, int64_t origin_ns);
// The inverse, times as nanoseconds from the run's first send. kDataCorrupt names `where`.
Result<RequestRecord> RequestRecordFromJson(const Json& json, const std::string& where);

}  // namespace firesteel
