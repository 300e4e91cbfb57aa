#include "bench/result_export.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <numeric>

#include "base/clock.h"

namespace firesteel {
namespace {

// One request as a tool sees it, in seconds.
struct Seen {
  bool ok = false;
  int64_t start_ns = 0;
  double ttft = 0;
  double latency = 0;
  std::vector<double> itl;
  std::vector<int64_t> chunk_ns;  // the first one too
  int64_t input = 0;
  int64_t output = 0;
};

// Times of single events: those of one read follow each other at once.
std::vector<int64_t> EventTimes(const RequestRecord& record, int32_t ChunkTime::*count) {
  std::vector<int64_t> times;
  for (const ChunkTime& chunk : record.chunks) {
    times.insert(times.end(), static_cast<size_t>(chunk.*count), chunk.time_ns);
  }
  return times;
}

void SetGaps(Seen* seen) {
  for (size_t i = 1; i < seen->chunk_ns.size(); ++i) {
    seen->itl.push_back(SecondsFromNs(seen->chunk_ns[i] - seen->chunk_ns[i - 1]));
  }
}

Seen AsVllm(const RequestRecord& r) {
  Seen seen;
  seen.start_ns = r.send_ns;
  seen.ok = r.ok() && !r.chunks.empty();
  if (!seen.ok) return seen;
  seen.chunk_ns = EventTimes(r, &ChunkTime::events);
  seen.ttft = SecondsFromNs(seen.chunk_ns.front() - r.send_ns);
  seen.latency = SecondsFromNs(seen.chunk_ns.back() - r.send_ns);
  SetGaps(&seen);
  seen.input = r.InputTokens().value_or(0);
  seen.output =
      r.completion_tokens.value_or(0) > 0 ? *r.completion_tokens : r.retokenized_tokens.value_or(1);
  return seen;
}

Seen AsSglang(const RequestRecord& r, bool generate) {
  Seen seen;
  seen.start_ns = r.send_ns;
  seen.ok = r.ok();
  if (!seen.ok) return seen;
  seen.latency = SecondsFromNs(r.done_ns - r.send_ns);
  seen.input = r.planned_prompt_tokens.value_or(r.prompt_tokens.value_or(0));
  seen.output = r.completion_tokens.value_or(r.requested_tokens);
  if (generate) {
    // Its native client divides a gap by the tokens that came, as we do.
    if (const auto ttft = r.Ttft()) seen.ttft = *ttft;
    r.AppendItl(&seen.itl);
    for (const Burst& burst : r.bursts) {
      seen.chunk_ns.insert(seen.chunk_ns.end(), static_cast<size_t>(burst.tokens), burst.time_ns);
    }
    return seen;
  }
  seen.chunk_ns = EventTimes(r, &ChunkTime::text_events);
  if (!seen.chunk_ns.empty()) seen.ttft = SecondsFromNs(seen.chunk_ns.front() - r.send_ns);
  SetGaps(&seen);
  return seen;
}

double Tpot(const Seen& seen) {
  return (seen.latency - seen.ttft) / static_cast<double>(seen.output - 1);
}

// Both tools write 0 where there is no sample.
struct Figures {
  double mean = 0, median = 0, std = 0;
  std::vector<double> sorted;

  explicit Figures(std::vector<double> samples_ms) : sorted(std::move(samples_ms)) {
    const Statistics s = Summarize(sorted);
    if (s.count > 0) {
      mean = s.mean;
      median = s.median;
      std = s.std;
    }
    std::sort(sorted.begin(), sorted.end());
  }
  double P(double percent) const { return sorted.empty() ? 0 : Percentile(sorted, percent); }
};

struct Totals {
  double duration = 0;
  int64_t completed = 0, input = 0, output = 0;
  double latency_sum = 0;
  std::map<std::string, std::vector<double>> ms;  // by metric
  double peak_tokens = 0;                         // chunks in the fullest second
};

Totals Sum(const std::vector<Seen>& seen, double duration) {
  Totals t;
  t.duration = duration;
  t.ms = {{"ttft", {}}, {"tpot", {}}, {"itl", {}}, {"e2el", {}}};
  int64_t first_ns = INT64_MAX;
  for (const Seen& s : seen) first_ns = std::min(first_ns, s.start_ns);
  std::map<int64_t, double> seconds;
  for (const Seen& s : seen) {
    if (!s.ok) continue;
    ++t.completed;
    t.input += s.input;
    t.output += s.output;
    t.latency_sum += s.latency;
    t.ms["ttft"].push_back(s.ttft * 1000);
    if (s.output > 1) t.ms["tpot"].push_back(Tpot(s) * 1000);
    for (const double gap : s.itl) t.ms["itl"].push_back(gap * 1000);
    t.ms["e2el"].push_back(s.latency * 1000);
    for (const int64_t at : s.chunk_ns) ++seconds[(at - first_ns) / 1'000'000'000];
  }
  for (const auto& [second, count] : seconds) t.peak_tokens = std::max(t.peak_tokens, count);
  return t;
}

double Rate(double amount, double duration) { return duration > 0 ? amount / duration : 0; }
double Rate(int64_t amount, double duration) { return Rate(static_cast<double>(amount), duration); }

Json OrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }
Json OrNull(int32_t n) { return n == 0 ? Json() : Json(n); }

std::string LocalTime(const char* format) {
  return fmt::format(fmt::runtime(fmt::format("{{:{}}}", format)),
                     fmt::localtime(std::time(nullptr)));
}

Json PerRequest(const std::vector<Seen>& seen, auto get) {
  Json list = Json::array();
  for (const Seen& s : seen) list.push_back(get(s));
  return list;
}

void AddDetails(const std::vector<Seen>& seen, const LoadResult& load, bool start_times,
                Json* json) {
  (*json)["input_lens"] = PerRequest(seen, [](const Seen& s) { return s.input; });
  (*json)["output_lens"] = PerRequest(seen, [](const Seen& s) { return s.output; });
  (*json)["ttfts"] = PerRequest(seen, [](const Seen& s) { return s.ttft; });
  (*json)["itls"] = PerRequest(seen, [](const Seen& s) { return Json(s.itl); });
  if (start_times) {
    (*json)["start_times"] =
        PerRequest(seen, [](const Seen& s) { return SecondsFromNs(s.start_ns); });
  }
  Json texts = Json::array(), errors = Json::array();
  for (const RequestRecord& r : load.records) {
    texts.push_back(r.text);
    errors.push_back(r.error);
  }
  (*json)["generated_texts"] = std::move(texts);
  (*json)["errors"] = std::move(errors);
}

// Seconds that a request touches, counted in buckets: may exceed the cap.
int64_t BucketConcurrency(const std::vector<Seen>& seen) {
  int64_t first_ns = INT64_MAX;
  for (const Seen& s : seen) first_ns = std::min(first_ns, s.start_ns);
  std::map<int64_t, int64_t> seconds;
  for (const Seen& s : seen) {
    if (!s.ok) continue;
    const double begin = SecondsFromNs(s.start_ns - first_ns);
    for (auto at = static_cast<int64_t>(begin); at <= static_cast<int64_t>(begin + s.latency); ++at)
      ++seconds[at];
  }
  int64_t most = 0;
  for (const auto& [second, count] : seconds) most = std::max(most, count);
  return most;
}

}  // namespace

Json VllmResult(const ExportOptions& options, const LoadResult& load, const RunResult& run) {
  std::vector<Seen> seen;
  for (const RequestRecord& r : load.records) seen.push_back(AsVllm(r));
  const Totals t = Sum(seen, run.duration_client_s);
  Json json;
  json["date"] = LocalTime("%Y%m%d-%H%M%S");
  json["endpoint_type"] = options.backend;
  json["backend"] = options.backend;
  json["label"] = OrNull(options.label);
  json["model_id"] = run.model;
  json["tokenizer_id"] = options.tokenizer_id.empty() ? run.model : options.tokenizer_id;
  json["num_prompts"] = load.records.size();
  for (const auto& [key, value] : run.metadata) json[key] = value;
  json["request_rate"] = run.load.request_rate ? Json(*run.load.request_rate) : Json("inf");
  json["burstiness"] = run.load.burstiness;
  json["max_concurrency"] = OrNull(run.load.max_concurrency);
  if (!run.load.ramp_up.empty()) {
    json["ramp_up_strategy"] = run.load.ramp_up;
    json["ramp_up_start_rps"] = run.load.ramp_start_rate.value_or(0);
    json["ramp_up_end_rps"] = run.load.ramp_end_rate.value_or(0);
  }
  json["duration"] = t.duration;
  json["completed"] = t.completed;
  json["failed"] = static_cast<int64_t>(load.records.size()) - t.completed;
  json["total_input_tokens"] = t.input;
  json["total_output_tokens"] = t.output;
  json["request_throughput"] = Rate(t.completed, t.duration);
  json["request_goodput"] =
      run.goodput_per_s
          ? Json(*run.goodput_per_s * run.whole.duration_s / std::max(t.duration, 1e-9))
          : Json();
  json["output_throughput"] = Rate(t.output, t.duration);
  json["total_token_throughput"] = Rate(t.input + t.output, t.duration);
  if (options.detailed) AddDetails(seen, load, /*start_times=*/true, &json);
  json["max_output_tokens_per_s"] = t.peak_tokens;
  json["max_concurrent_requests"] = run.peak_in_flight;
  for (const std::string& metric : options.metrics) {
    const auto samples = t.ms.find(metric);
    if (samples == t.ms.end()) continue;
    const Figures f(samples->second);
    json["mean_" + metric + "_ms"] = f.mean;
    json["median_" + metric + "_ms"] = f.median;
    json["std_" + metric + "_ms"] = f.std;
    for (const double p : options.percentiles) {
      json[fmt::format("p{:g}_{}_ms", p, metric)] = f.P(p);
    }
  }
  if (run.speculation && run.speculation->counters.draft_tokens > 0) {
    const SpecCounters& c = run.speculation->counters;
    json["spec_decode_acceptance_rate"] = 100 * *run.speculation->acceptance_rate;
    json["spec_decode_acceptance_length"] = *run.speculation->acceptance_length;
    json["spec_decode_num_drafts"] = std::llround(c.drafts);
    json["spec_decode_draft_tokens"] = std::llround(c.draft_tokens);
    json["spec_decode_accepted_tokens"] = std::llround(c.accepted_tokens);
    json["spec_decode_per_position_acceptance_rates"] = run.speculation->per_position;
  }
  return json;
}

std::string VllmFileName(const ExportOptions& options, const RunResult& run) {
  const std::string rate =
      run.load.request_rate ? fmt::format("{}", *run.load.request_rate) : "inf";
  const size_t slash = run.model.rfind('/');
  const std::string model = slash == std::string::npos ? run.model : run.model.substr(slash + 1);
  return fmt::format(
      "{}-{}qps{}-{}-{}.json", options.label.empty() ? options.backend : options.label,
      run.load.ramp_up.empty()
          ? rate
          : fmt::format("ramp-up-{}-{}qps-{}", run.load.ramp_up,
                        run.load.ramp_start_rate.value_or(0), run.load.ramp_end_rate.value_or(0)),
      run.load.max_concurrency > 0 ? fmt::format("-concurrency{}", run.load.max_concurrency) : "",
      model, LocalTime("%Y%m%d-%H%M%S"));
}

std::string SglangLine(const ExportOptions& options, const LoadResult& load, const RunResult& run) {
  std::vector<Seen> seen;
  for (const RequestRecord& r : load.records) seen.push_back(AsSglang(r, run.api == "sglang"));
  // Its clock runs on until the server has told about itself.
  const Totals t = Sum(seen, run.duration_client_s + run.server_info_s.value_or(0));
  constexpr char kInfinity[] = "\x01Infinity";  // not JSON: written in below
  Json json;
  json["tag"] = OrNull(options.tag);
  json["backend"] = options.backend;
  json["dataset_name"] = options.dataset;
  if (run.load.kind == "trace") {
    json["request_rate"] = "trace";
  } else {
    json["request_rate"] = run.load.request_rate ? Json(*run.load.request_rate)
                           : options.strict_json ? Json("inf")
                                                 : Json(kInfinity);
  }
  json["max_concurrency"] = OrNull(run.load.max_concurrency);
  json["sharegpt_output_len"] = OrNull(options.sharegpt_output_len);
  json["random_input_len"] = OrNull(options.random_input_len);
  json["random_output_len"] = OrNull(options.random_output_len);
  json["random_range_ratio"] = options.random_range_ratio;
  json["server_info"] = run.server_info;
  json["duration"] = t.duration;
  json["completed"] = t.completed;
  json["total_input_tokens"] = t.input;
  json["total_input_text_tokens"] = t.input;
  json["total_input_vision_tokens"] = 0;
  json["total_output_tokens"] = t.output;
  json["total_output_tokens_retokenized"] = run.output_tokens_retokenized.value_or(t.output);
  json["request_throughput"] = Rate(t.completed, t.duration);
  json["input_throughput"] = Rate(t.input, t.duration);
  json["output_throughput"] = Rate(t.output, t.duration);
  json["total_throughput"] = Rate(t.input + t.output, t.duration);
  for (const auto& [key, metric] : {std::pair("e2e_latency", "e2el"), std::pair("ttft", "ttft"),
                                    std::pair("tpot", "tpot"), std::pair("itl", "itl")}) {
    const Figures f(t.ms.at(metric));
    json[fmt::format("mean_{}_ms", key)] = f.mean;
    json[fmt::format("median_{}_ms", key)] = f.median;
    json[fmt::format("std_{}_ms", key)] = f.std;
    for (const int p : {90, 95, 99}) json[fmt::format("p{}_{}_ms", p, key)] = f.P(p);
  }
  json["concurrency"] = Rate(t.latency_sum, t.duration);
  json["accept_length"] = run.speculation && run.speculation->acceptance_length
                              ? Json(*run.speculation->acceptance_length)
                              : Json();
  json["max_output_tokens_per_s"] = t.peak_tokens;
  json["max_concurrent_requests"] = BucketConcurrency(seen);
  if (options.detailed) AddDetails(seen, load, /*start_times=*/false, &json);
  std::string line = DumpJson(json) + "\n";
  const std::string marked = DumpJson(Json(kInfinity));
  if (const size_t at = line.find(marked); at != std::string::npos && !options.strict_json) {
    line.replace(at, marked.size(), "Infinity");
  }
  return line;
}

std::string SglangFileName(const ExportOptions& options, const RunResult& run) {
  const std::string day = LocalTime("%m%d");
  if (options.dataset.starts_with("random")) {
    return fmt::format("{}_{}_{}_{}_{}.jsonl", options.backend, day, run.counts.requests,
                       options.random_input_len, options.random_output_len);
  }
  return fmt::format("{}_{}_{}_{}.jsonl", options.backend, day, run.counts.requests,
                     options.dataset);
}

}  // namespace firesteel
