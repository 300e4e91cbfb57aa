#include "bench/run_result.h"

#include <fmt/format.h>

#include <array>
#include <type_traits>
#include <utility>

namespace firesteel {
namespace {

constexpr std::array kSeverities = {"note", "warning", "unverified", "void"};

// One list of fields for writing and for reading: `archive(name, member)` for each, so that the two
// cannot part.
template <typename Archive, typename S>
void Fields(Archive& archive, S& s) requires std::is_same_v<std::remove_const_t<S>, Statistics> {
  archive("n", s.count);
  archive("mean", s.mean);
  archive("median", s.median);
  archive("std", s.std);
  archive("min", s.min);
  archive("max", s.max);
  archive("p75", s.p75);
  archive("p90", s.p90);
  archive("p95", s.p95);
  archive("p99", s.p99);
  archive("p999", s.p999);
  archive("ci95_mean", s.ci95_mean);
  archive("ci95_p99", s.ci95_p99);
}

template <typename Archive, typename S>
void Fields(Archive& archive, S& s) requires std::is_same_v<std::remove_const_t<S>, LoadShape> {
  archive("kind", s.kind);
  archive("request_rate", s.request_rate);
  archive("burstiness", s.burstiness);
  archive("ramp_up", s.ramp_up);
  archive("ramp_start_rate", s.ramp_start_rate);
  archive("ramp_end_rate", s.ramp_end_rate);
  archive("max_concurrency", s.max_concurrency);
  archive("seed", s.seed);
}

template <typename Archive, typename S>
void Fields(Archive& archive, S& s) requires std::is_same_v<std::remove_const_t<S>, RunCounts> {
  archive("requests", s.requests);
  archive("completed", s.completed);
  archive("failed", s.failed);
  archive("incomplete", s.incomplete);
  archive("failures", s.failures);
  archive("messages", s.messages);
  archive("reconnects", s.reconnects);
  archive("unterminated_events", s.unterminated_events);
  archive("not_streamed", s.not_streamed);
  archive("short_outputs", s.short_outputs);
  archive("wasted_tokens", s.wasted_tokens);
}

template <typename Archive, typename S>
void Fields(Archive& archive, S& s) requires std::is_same_v<std::remove_const_t<S>, RunWindow> {
  archive("start_s", s.start_s);
  archive("duration_s", s.duration_s);
  archive("completed", s.completed);
  archive("input_tokens", s.input_tokens);
  archive("output_tokens", s.output_tokens);
  archive("requests_per_s", s.requests_per_s);
  archive("input_tokens_per_s", s.input_tokens_per_s);
  archive("output_tokens_per_s", s.output_tokens_per_s);
  archive("total_tokens_per_s", s.total_tokens_per_s);
  archive("mean_in_flight", s.mean_in_flight);
  archive("metrics", s.metrics);
}

template <typename Archive, typename S>
void Fields(Archive& archive, S& s) requires std::is_same_v<std::remove_const_t<S>, GoodputLimits> {
  archive("ttft_ms", s.ttft_ms);
  archive("tpot_ms", s.tpot_ms);
  archive("e2e_ms", s.e2e_ms);
  archive("itl_p95_ms", s.itl_p95_ms);
  archive("min_tps_user", s.min_tps_user);
}

template <typename Archive, typename S>
void Fields(Archive& archive, S& s) requires std::is_same_v<std::remove_const_t<S>, ClientHealth> {
  archive("lag_samples", s.lag_samples);
  archive("lag_p50_ms", s.lag_p50_ms);
  archive("lag_p99_ms", s.lag_p99_ms);
  archive("lag_max_ms", s.lag_max_ms);
  archive("cpu_s", s.cpu_s);
  archive("busy_s", s.busy_s);
  archive("withheld_s", s.withheld_s);
  archive("wall_s", s.wall_s);
  archive("events", s.events);
  archive("cpus", s.cpus);
}

template <typename Archive, typename S>
void Fields(Archive& archive,
            S& s) requires std::is_same_v<std::remove_const_t<S>, RunSpeculation> {
  archive("drafts", s.counters.drafts);
  archive("draft_tokens", s.counters.draft_tokens);
  archive("accepted_tokens", s.counters.accepted_tokens);
  archive("accepted_per_position", s.counters.accepted_per_position);
  archive("acceptance_length", s.acceptance_length);
  archive("acceptance_rate", s.acceptance_rate);
  archive("per_position", s.per_position);
  archive("per_position_conditional", s.per_position_conditional);
  archive("tokens_per_draft", s.tokens_per_draft);
  archive("client_acceptance_length", s.client_acceptance_length);
}

template <typename Archive, typename S>
void Fields(Archive& archive, S& s) requires std::is_same_v<std::remove_const_t<S>, RunWorkload> {
  archive("dataset", s.dataset);
  archive("rule", s.rule);
  archive("fingerprint", s.fingerprint);
  archive("seed", s.seed);
  archive("synthetic_text", s.synthetic_text);
  archive("ignore_eos", s.ignore_eos);
}

template <typename Archive, typename S>
void Fields(Archive& archive, S& s) requires std::is_same_v<std::remove_const_t<S>, RunFinding> {
  archive("id", s.id);
  archive("severity", s.severity);
  archive("message", s.message);
}

template <typename Archive, typename S>
void Fields(Archive& archive, S& s) requires std::is_same_v<std::remove_const_t<S>, RunResult> {
  archive("schema", s.schema);
  archive("id", s.id);
  archive("created", s.created);
  archive("version", s.version);
  archive("workload", s.workload);
  archive("load", s.load);
  archive("base_url", s.base_url);
  archive("endpoint", s.endpoint);
  archive("api", s.api);
  archive("model", s.model);
  archive("sampling", s.sampling);
  archive("server_info", s.server_info);
  archive("metadata", s.metadata);
  archive("counts", s.counts);
  archive("duration_client_s", s.duration_client_s);
  archive("server_info_s", s.server_info_s);
  archive("whole", s.whole);
  archive("steady", s.steady);
  archive("steady_fraction", s.steady_fraction);
  archive("waves", s.waves);
  archive("input_tokens_planned", s.input_tokens_planned);
  archive("cached_tokens", s.cached_tokens);
  archive("output_tokens_requested", s.output_tokens_requested);
  archive("output_tokens_retokenized", s.output_tokens_retokenized);
  archive("output_count_basis", s.output_count_basis);
  archive("itl_basis", s.itl_basis);
  archive("peak_output_tokens_per_s", s.peak_output_tokens_per_s);
  archive("peak_output_tokens_per_s_10s", s.peak_output_tokens_per_s_10s);
  archive("peak_in_flight", s.peak_in_flight);
  archive("multi_event_bursts", s.multi_event_bursts);
  archive("requested_rate", s.requested_rate);
  archive("achieved_rate", s.achieved_rate);
  archive("goodput_limits", s.goodput_limits);
  archive("goodput_per_s", s.goodput_per_s);
  archive("goodput_pct", s.goodput_pct);
  archive("speculation", s.speculation);
  archive("client", s.client);
  archive("warmup_requests", s.warmup_requests);
  archive("warmup_first_ms", s.warmup_first_ms);
  archive("findings", s.findings);
}

class Writer {
 public:
  template <typename T>
  void operator()(const char* name, const T& value) {
    json_[name] = ToJson(value);
  }
  Json Take() { return std::move(json_); }

  template <typename T>
  static Json ToJson(const T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string> ||
                  std::is_same_v<T, Json>) {
      return value;
    } else if constexpr (std::is_same_v<T, FindingSeverity>) {
      return FindingSeverityName(value);
    } else {
      Writer writer;
      Fields(writer, value);
      return writer.Take();
    }
  }
  template <typename T>
  static Json ToJson(const std::optional<T>& value) {
    return value ? ToJson(*value) : Json();
  }
  static Json ToJson(const std::pair<double, double>& value) {
    return Json::array({value.first, value.second});
  }
  template <typename T>
  static Json ToJson(const std::vector<T>& list) {
    Json json = Json::array();
    for (const T& item : list) json.push_back(ToJson(item));
    return json;
  }
  template <typename T>
  static Json ToJson(const std::map<std::string, T>& map) {
    Json json = Json::object();
    for (const auto& [key, value] : map) json[key] = ToJson(value);
    return json;
  }

 private:
  Json json_ = Json::object();
};

// Absent and null fields keep their default: older schemas have fewer.
class Reader {
 public:
  Reader(const Json& json, std::string where, Status* status)
      : json_(json), where_(std::move(where)), status_(status) {
    if (!json.is_object()) Fail("", "an object");
  }

  template <typename T>
  void operator()(const char* name, T& value) {
    if (!status_->ok() || !json_.is_object()) return;
    const auto found = json_.find(name);
    if (found == json_.end() || found->is_null()) return;
    Read(*found, name, &value);
  }

 private:
  void Fail(const std::string& name, const char* expected) {
    if (!status_->ok()) return;
    *status_ = DataCorrupt(
        fmt::format("{}{}{} is not {}", where_, name.empty() ? "" : ": ", name, expected));
  }

  template <typename T>
  void Read(const Json& json, const std::string& name, T* value) {
    if constexpr (std::is_same_v<T, Json>) {
      *value = json;
    } else if constexpr (std::is_same_v<T, bool>) {
      json.is_boolean() ? void(*value = json.get<bool>()) : Fail(name, "true or false");
    } else if constexpr (std::is_integral_v<T>) {
      json.is_number_integer() ? void(*value = json.get<T>()) : Fail(name, "an integer");
    } else if constexpr (std::is_floating_point_v<T>) {
      json.is_number() ? void(*value = json.get<T>()) : Fail(name, "a number");
    } else if constexpr (std::is_same_v<T, std::string>) {
      json.is_string() ? void(*value = json.get<std::string>()) : Fail(name, "a string");
    } else if constexpr (std::is_same_v<T, FindingSeverity>) {
      for (size_t i = 0; i < kSeverities.size(); ++i) {
        if (json == Json(kSeverities[i])) {
          *value = static_cast<FindingSeverity>(i);
          return;
        }
      }
      Fail(name, "one of note, warning, unverified, void");
    } else {
      Reader reader(json, where_ + ": " + name, status_);
      Fields(reader, *value);
    }
  }
  template <typename T>
  void Read(const Json& json, const std::string& name, std::optional<T>* value) {
    Read(json, name, &value->emplace());
  }
  void Read(const Json& json, const std::string& name, std::pair<double, double>* value) {
    if (!json.is_array() || json.size() != 2) return Fail(name, "a pair of numbers");
    Read(json[0], name, &value->first);
    Read(json[1], name, &value->second);
  }
  template <typename T>
  void Read(const Json& json, const std::string& name, std::vector<T>* list) {
    if (!json.is_array()) return Fail(name, "a list");
    list->clear();
    for (size_t i = 0; i < json.size(); ++i) {
      list->emplace_back();
      Read(json[i], fmt::format("{}[{}]", name, i), &list->back());
    }
  }
  template <typename T>
  void Read(const Json& json, const std::string& name, std::map<std::string, T>* map) {
    if (!json.is_object()) return Fail(name, "an object");
    map->clear();
    for (const auto& [key, value] : json.items()) {
      Read(value, name + "." + key, &(*map)[key]);
    }
  }

  const Json& json_;
  const std::string where_;
  Status* status_;
};

}  // namespace

const Statistics* RunWindow::Find(const std::string& name) const {
  const auto found = metrics.find(name);
  return found == metrics.end() || found->second.count == 0 ? nullptr : &found->second;
}

RunStatus RunResult::Status() const {
  RunStatus status = RunStatus::kValid;
  for (const RunFinding& finding : findings) {
    if (finding.severity == FindingSeverity::kVoid) return RunStatus::kVoid;
    if (finding.severity == FindingSeverity::kUnverified) status = RunStatus::kUnverified;
  }
  return status;
}

std::vector<std::string> RunResult::VoidReasons() const {
  std::vector<std::string> reasons;
  for (const RunFinding& finding : findings) {
    if (finding.severity == FindingSeverity::kVoid) reasons.push_back(finding.message);
  }
  return reasons;
}

const char* RunStatusName(RunStatus status) {
  switch (status) {
    case RunStatus::kValid:
      return "valid";
    case RunStatus::kUnverified:
      return "unverified";
    case RunStatus::kVoid:
      return "void";
  }
  return "void";
}

const char* FindingSeverityName(FindingSeverity severity) {
  return kSeverities[static_cast<size_t>(severity)];
}

Json RunResultJson(const RunResult& run) {
  Writer writer;
  Fields(writer, run);
  Json json = writer.Take();
  json["status"] = RunStatusName(run.Status());  // for programs; computed from the findings
  return json;
}

Result<RunResult> RunResultFromJson(const Json& json, const std::string& where) {
  const Json* source = &json;
  if (json.is_object() && json.contains("run")) source = &json["run"];
  RunResult run;
  Status status;
  Reader reader(*source, where, &status);
  Fields(reader, run);
  FS_TRY(status);
  if (!source->contains("schema")) {
    return DataCorrupt(
        fmt::format("{}: schema is missing, expected at most {}", where, kRunSchema));
  }
  if (run.schema < 1 || run.schema > kRunSchema) {
    return DataCorrupt(
        fmt::format("{}: schema is {}, expected at most {}", where, run.schema, kRunSchema));
  }
  return run;
}

}  // namespace firesteel
