#include <fmt/format.h>

#include <cmath>

#include "base/clock.h"
#include "bench/request_record.h"
#include "firesteel/status.h"

namespace firesteel {
namespace {

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json TimeJson(const std::optional<int64_t>& ns, int64_t origin_ns) {
  return ns ? Json(SecondsFromNs(*ns - origin_ns)) : Json();
}

int64_t ToNs(double seconds) { return std::llround(seconds * 1e9); }

// Reads fields one by one; the first wrong one is kept.
class Reader {
 public:
  Reader(const Json& json, const std::string& where) : json_(json), where_(where) {}

  const Status& status() const { return status_; }

  std::optional<int64_t> Int(const char* key) {
    const auto value = GetInt(json_, key, where_);
    return Keep(value);
  }
  std::optional<int32_t> Int32(const char* key) {
    const std::optional<int64_t> value = Int(key);
    if (!value) return std::nullopt;
    if (*value < INT32_MIN || *value > INT32_MAX) {
      Fail(key, "a 32-bit integer");
      return std::nullopt;
    }
    return static_cast<int32_t>(*value);
  }
  std::optional<int64_t> Time(const char* key) {
    const auto value = GetDouble(json_, key, where_);
    const std::optional<double> seconds = Keep(value);
    return seconds ? std::optional<int64_t>(ToNs(*seconds)) : std::nullopt;
  }
  std::string Text(const char* key) {
    const auto value = GetString(json_, key, where_);
    return Keep(value).value_or("");
  }
  bool Bool(const char* key) {
    const auto value = GetBool(json_, key, where_);
    return Keep(value).value_or(false);
  }
  void Fail(const char* key, const char* expected) {
    if (status_.ok()) {
      status_ = DataCorrupt(fmt::format("{}: {} is not {}", where_, key, expected));
    }
  }

 private:
  template <typename T>
  std::optional<T> Keep(const Result<std::optional<T>>& value) {
    if (value.ok()) return *value;
    if (status_.ok()) status_ = DataCorrupt(value.status().message());
    return std::nullopt;
  }

  const Json& json_;
  const std::string& where_;
  Status status_;
};

void ReadBursts(const Json& json, Reader* reader, RequestRecord* record) {
  const auto list = json.find("bursts");
  if (list == json.end() || list->is_null()) return;
  constexpr const char* kExpected = "a list of [time, tokens, events, text bytes]";
  if (!list->is_array()) return reader->Fail("bursts", kExpected);
  for (const Json& entry : *list) {
    if (!entry.is_array() || entry.size() != 4 || !entry[0].is_number() ||
        !entry[1].is_number_integer() || !entry[2].is_number_integer() ||
        !entry[3].is_number_integer()) {
      return reader->Fail("bursts", kExpected);
    }
    record->bursts.push_back({.time_ns = ToNs(entry[0].get<double>()),
                              .tokens = entry[1].get<int32_t>(),
                              .events = entry[2].get<int32_t>(),
                              .text_bytes = entry[3].get<int32_t>()});
  }
}

}  // namespace

Json RequestRecordJson(const RequestRecord& record, int64_t origin_ns) {
  std::vector<double> itl;
  record.AppendItl(&itl);
  Json json;
  json["id"] = record.prompt_id;
  json["index"] = record.index;
  json["http_status"] = record.http_status;
  json["error"] = record.error;
  json["failure"] = FailureName(record.failure);
  json["finish_reason"] = record.finish_reason;
  json["input_len"] = OrNull(record.prompt_tokens);
  json["planned_input_len"] = OrNull(record.planned_prompt_tokens);
  json["cached_len"] = OrNull(record.cached_tokens);
  json["output_len"] = record.OutputTokens();
  json["output_count_basis"] = record.OutputCountBasis();
  json["requested_len"] = record.requested_tokens;
  json["server_output_len"] = OrNull(record.completion_tokens);
  json["reasoning_len"] = OrNull(record.reasoning_tokens);
  json["retokenized_len"] = OrNull(record.retokenized_tokens);
  json["ttft"] = OrNull(record.Ttft());
  json["tpot"] = OrNull(record.Tpot());
  json["e2el"] = OrNull(record.E2e());
  json["itls"] = itl;
  json["t_sched"] = TimeJson(record.sched_ns, origin_ns);
  json["t_send"] = SecondsFromNs(record.send_ns - origin_ns);
  json["t_conn"] = TimeJson(record.connect_ns, 0);
  json["t_head"] = TimeJson(record.head_ns, origin_ns);
  json["t_event"] = TimeJson(record.event_ns, origin_ns);
  json["t_content"] = TimeJson(record.content_ns, origin_ns);
  json["t_done"] = record.done_ns == 0 ? Json() : Json(SecondsFromNs(record.done_ns - origin_ns));
  Json bursts = Json::array();
  for (const Burst& burst : record.bursts) {
    bursts.push_back(Json::array(
        {SecondsFromNs(burst.time_ns - origin_ns), burst.tokens, burst.events, burst.text_bytes}));
  }
  json["bursts"] = std::move(bursts);
  json["burst_basis"] = BurstBasisName(record.burst_basis);
  json["reconnects"] = record.reconnects;
  json["unterminated_event"] = record.unterminated_event;
  json["not_streamed"] = record.not_streamed;
  if (record.speculation) {
    json["spec"] = Json{{"drafts", record.speculation->drafts},
                        {"draft_tokens", OrNull(record.speculation->draft_tokens)},
                        {"accepted_tokens", OrNull(record.speculation->accepted_tokens)}};
  }
  json["token_ids"] = OrNull(record.token_ids);
  json["text"] = record.text;
  return json;
}

Result<RequestRecord> RequestRecordFromJson(const Json& json, const std::string& where) {
  if (!json.is_object()) return DataCorrupt(where + ": is not an object");
  Reader reader(json, where);
  RequestRecord record;
  record.prompt_id = reader.Text("id");
  record.index = static_cast<size_t>(reader.Int("index").value_or(0));
  record.http_status = reader.Int32("http_status").value_or(0);
  record.error = reader.Text("error");
  const std::string failure = reader.Text("failure");
  if (const auto known = FailureFromName(failure)) {
    record.failure = *known;
  } else if (!failure.empty()) {
    reader.Fail("failure", "a known class");
  }
  record.finish_reason = reader.Text("finish_reason");
  record.prompt_tokens = reader.Int32("input_len");
  record.planned_prompt_tokens = reader.Int32("planned_input_len");
  record.cached_tokens = reader.Int32("cached_len");
  record.requested_tokens = reader.Int32("requested_len").value_or(0);
  record.completion_tokens = reader.Int32("server_output_len");
  record.reasoning_tokens = reader.Int32("reasoning_len");
  record.retokenized_tokens = reader.Int32("retokenized_len");
  record.sched_ns = reader.Time("t_sched");
  record.send_ns = reader.Time("t_send").value_or(0);
  record.connect_ns = reader.Time("t_conn");
  record.head_ns = reader.Time("t_head");
  record.event_ns = reader.Time("t_event");
  record.content_ns = reader.Time("t_content");
  record.done_ns = reader.Time("t_done").value_or(0);
  ReadBursts(json, &reader, &record);
  const std::string basis = reader.Text("burst_basis");
  if (const auto known = BurstBasisFromName(basis)) {
    record.burst_basis = *known;
  } else if (!basis.empty()) {
    reader.Fail("burst_basis", "a known basis");
  }
  record.reconnects = reader.Int32("reconnects").value_or(0);
  record.unterminated_event = reader.Bool("unterminated_event");
  record.not_streamed = reader.Bool("not_streamed");
  if (const auto spec = json.find("spec"); spec != json.end() && spec->is_object()) {
    Reader inner(*spec, where);
    record.speculation = {.drafts = inner.Int("drafts").value_or(0),
                          .draft_tokens = inner.Int("draft_tokens"),
                          .accepted_tokens = inner.Int("accepted_tokens")};
    FS_TRY(inner.status());
  }
  const auto ids = GetIntList(json, "token_ids", where);
  if (!ids.ok()) return DataCorrupt(ids.status().message());
  if (*ids) record.token_ids.emplace((*ids)->begin(), (*ids)->end());
  record.text = reader.Text("text");
  FS_TRY(reader.status());
  return record;
}

}  // namespace firesteel
