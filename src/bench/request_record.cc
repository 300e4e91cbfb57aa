#include "bench/request_record.h"

#include <array>
#include <utility>

#include "base/clock.h"

namespace firesteel {
namespace {

constexpr std::array<std::pair<Failure, const char*>, 15> kFailures = {{
    {Failure::kNone, "none"},
    {Failure::kConnect, "connect"},
    {Failure::kTls, "tls"},
    {Failure::kHttp4xx, "http_4xx"},
    {Failure::kHttp429, "http_429"},
    {Failure::kHttp5xx, "http_5xx"},
    {Failure::kInStreamError, "in_stream_error"},
    {Failure::kProtocol, "protocol"},
    {Failure::kTruncated, "truncated"},
    {Failure::kEmpty, "empty"},
    {Failure::kTimeoutConnect, "timeout_connect"},
    {Failure::kTimeoutFirst, "timeout_first"},
    {Failure::kTimeoutIdle, "timeout_idle"},
    {Failure::kTimeoutTotal, "timeout_total"},
    {Failure::kCancelled, "cancelled"},
}};

constexpr std::array<std::pair<BurstBasis, const char*>, 6> kBases = {{
    {BurstBasis::kTokenIds, "token_ids"},
    {BurstBasis::kUsage, "usage"},
    {BurstBasis::kLogprobs, "logprobs"},
    {BurstBasis::kTokenizer, "tokenizer"},
    {BurstBasis::kBytes, "bytes"},
    {BurstBasis::kChunk, "chunk"},
}};

template <typename Table, typename Key>
const char* NameIn(const Table& table, Key key) {
  for (const auto& [value, name] : table) {
    if (value == key) return name;
  }
  return "unknown";
}

template <typename Table>
auto ValueIn(const Table& table, std::string_view name) {
  std::optional<typename Table::value_type::first_type> found;
  for (const auto& [value, text] : table) {
    if (name == text) found = value;
  }
  return found;
}

}  // namespace

const char* FailureName(Failure failure) { return NameIn(kFailures, failure); }
std::optional<Failure> FailureFromName(std::string_view name) { return ValueIn(kFailures, name); }
const char* BurstBasisName(BurstBasis basis) { return NameIn(kBases, basis); }
std::optional<BurstBasis> BurstBasisFromName(std::string_view name) {
  return ValueIn(kBases, name);
}

int32_t RequestRecord::OutputTokens() const {
  if (completion_tokens) return *completion_tokens;
  if (token_ids) return static_cast<int32_t>(token_ids->size());
  if (retokenized_tokens) return *retokenized_tokens;
  int32_t tokens = 0;
  for (const Burst& burst : bursts) tokens += burst.tokens;
  return tokens;
}

const char* RequestRecord::OutputCountBasis() const {
  if (completion_tokens) return "usage";
  if (token_ids) return "token_ids";
  return retokenized_tokens ? "retokenized" : "chunks";
}

std::optional<int32_t> RequestRecord::InputTokens() const {
  return prompt_tokens ? prompt_tokens : planned_prompt_tokens;
}

std::optional<double> RequestRecord::Ttft() const {
  if (bursts.empty()) return std::nullopt;
  return SecondsFromNs(bursts.front().time_ns - send_ns);
}

std::optional<double> RequestRecord::TtftEvent() const {
  if (!event_ns) return std::nullopt;
  return SecondsFromNs(*event_ns - send_ns);
}

std::optional<double> RequestRecord::TtftContent() const {
  if (!content_ns) return std::nullopt;
  return SecondsFromNs(*content_ns - send_ns);
}

std::optional<double> RequestRecord::TtftSched() const {
  if (bursts.empty() || !sched_ns) return std::nullopt;
  return SecondsFromNs(bursts.front().time_ns - *sched_ns);
}

std::optional<double> RequestRecord::E2e() const {
  if (bursts.empty()) return std::nullopt;
  return SecondsFromNs(bursts.back().time_ns - send_ns);
}

std::optional<double> RequestRecord::E2eDone() const {
  if (done_ns == 0) return std::nullopt;
  return SecondsFromNs(done_ns - send_ns);
}

std::optional<double> RequestRecord::E2eSched() const {
  if (bursts.empty() || !sched_ns) return std::nullopt;
  return SecondsFromNs(bursts.back().time_ns - *sched_ns);
}

std::optional<double> RequestRecord::Tpot() const {
  const int32_t tokens = OutputTokens();
  if (bursts.empty() || tokens < 2) return std::nullopt;
  return SecondsFromNs(bursts.back().time_ns - bursts.front().time_ns) / (tokens - 1);
}

std::optional<double> RequestRecord::TpotBurst() const {
  if (bursts.size() < 2) return std::nullopt;
  const int32_t later = OutputTokens() - bursts.front().tokens;
  if (later < 1) return std::nullopt;
  return SecondsFromNs(bursts.back().time_ns - bursts.front().time_ns) / later;
}

std::optional<double> RequestRecord::ScheduleDelay() const {
  if (!sched_ns) return std::nullopt;
  return SecondsFromNs(send_ns - *sched_ns);
}

void RequestRecord::AppendItl(std::vector<double>* samples) const {
  for (size_t i = 1; i < bursts.size(); ++i) {
    const double gap = SecondsFromNs(bursts[i].time_ns - bursts[i - 1].time_ns);
    for (int32_t k = 0; k < bursts[i].tokens; ++k) samples->push_back(gap / bursts[i].tokens);
  }
}

void RequestRecord::AppendIcl(std::vector<double>* samples) const {
  for (size_t i = 1; i < bursts.size(); ++i) {
    samples->push_back(SecondsFromNs(bursts[i].time_ns - bursts[i - 1].time_ns));
  }
}

}  // namespace firesteel
