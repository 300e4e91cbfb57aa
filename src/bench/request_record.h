// What one request of a benchmark was and how it went. Everything that is reported is computed from
// these.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace firesteel {

// Tokens that became known in one read from the connection. Events that one read completed share
// its time.
struct Burst {
  int64_t time_ns = 0;
  int32_t tokens = 0;
};

struct RequestRecord {
  size_t index = 0;  // position in the run
  std::string prompt_id;
  int64_t send_ns = 0;        // clock.h; just before the request goes to the connection
  int64_t done_ns = 0;        // the end of the response
  std::vector<Burst> bursts;  // first one at the first token; empty without any token

  int32_t http_status = 0;  // 0: no complete response
  std::string error;        // "" when the request succeeded
  std::string finish_reason;
  std::string text;
  std::optional<std::vector<int32_t>> token_ids;  // nullopt when the server gave none
  std::optional<int32_t> prompt_tokens;           // as the server counted
  std::optional<int32_t> cached_tokens;
  std::optional<int32_t> completion_tokens;

  bool ok() const { return error.empty(); }

  // The server's count, else the number of token ids, else the number of events with text.
  int32_t OutputTokens() const;
  const char* OutputCountBasis() const;  // "usage" | "token_ids" | "chunks"

  // Seconds; nullopt where not defined (no token, or one token for Tpot).
  std::optional<double> Ttft() const;  // to the first token
  std::optional<double> E2e() const;   // to the last token
  std::optional<double> Tpot() const;  // (e2e - ttft) / (tokens - 1)
  // One sample per token after the first burst: a gap before k tokens counts as k samples of gap /
  // k.
  void AppendItl(std::vector<double>* samples) const;
};

}  // namespace firesteel
