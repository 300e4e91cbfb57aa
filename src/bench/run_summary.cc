#include "bench/run_summary.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>
#include <set>

#include "base/clock.h"
#include "base/rng.h"
#include "bench/in_flight.h"
#include "firesteel/version.h"

namespace firesteel {
namespace {

constexpr double kMs = 1000;
constexpr size_t kKeptMessages = 3;

double PerSecond(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

// Samples of every metric over some of the records.
class Samples {
 public:
  void Add(const RequestRecord& r, bool client_queue) {
    Put("ttft_ms", r.Ttft(), kMs);
    Put("ttft_event_ms", r.TtftEvent(), kMs);
    Put("ttft_content_ms", r.TtftContent(), kMs);
    Put("ttft_sched_ms", r.TtftSched(), kMs);
    Put("tpot_ms", r.Tpot(), kMs);
    Put("tpot_burst_ms", r.TpotBurst(), kMs);
    Put("e2e_ms", r.E2e(), kMs);
    Put("e2e_done_ms", r.E2eDone(), kMs);
    Put("e2e_sched_ms", r.E2eSched(), kMs);
    Put("schedule_delay_ms", r.ScheduleDelay(), kMs);
    if (client_queue) Put("client_queue_ms", r.ScheduleDelay(), kMs);
    if (r.connect_ns) Put("connect_ms", SecondsFromNs(*r.connect_ns), kMs);
    if (const auto tpot = r.Tpot(); tpot && *tpot > 0) Put("tps_user", 1 / *tpot, 1);
    Put("output_tokens", static_cast<double>(r.OutputTokens()), 1);
    if (const auto n = r.InputTokens()) Put("input_tokens", static_cast<double>(*n), 1);
    AppendScaled("itl_ms", [&](std::vector<double>* out) { r.AppendItl(out); });
    AppendScaled("icl_ms", [&](std::vector<double>* out) { r.AppendIcl(out); });
    for (const Burst& burst : r.bursts) Put("tokens_per_burst", burst.tokens, 1);
  }

  std::map<std::string, Statistics> Take() {
    std::map<std::string, Statistics> metrics;
    for (auto& [name, samples] : samples_) {
      if (!samples.empty()) metrics[name] = Summarize(std::move(samples));
    }
    return metrics;
  }

 private:
  void Put(const char* name, std::optional<double> value, double scale) {
    if (value) samples_[name].push_back(*value * scale);
  }
  template <typename Append>
  void AppendScaled(const char* name, Append append) {
    std::vector<double>& list = samples_[name];
    const size_t first = list.size();
    append(&list);
    for (size_t i = first; i < list.size(); ++i) list[i] *= kMs;
  }

  std::map<std::string, std::vector<double>> samples_;
};

void SetRates(RunWindow* window) {
  const double d = window->duration_s;
  window->requests_per_s = PerSecond(static_cast<double>(window->completed), d);
  window->input_tokens_per_s = PerSecond(static_cast<double>(window->input_tokens), d);
  window->output_tokens_per_s = PerSecond(static_cast<double>(window->output_tokens), d);
  window->total_tokens_per_s = window->input_tokens_per_s + window->output_tokens_per_s;
}

RunWindow WholeRun(const LoadResult& load, bool client_queue, int64_t origin_ns,
                   std::span<const InFlightStep> steps) {
  RunWindow window;
  window.duration_s = load.duration_s;
  Samples samples;
  for (const RequestRecord& record : load.records) {
    if (!record.ok()) continue;
    ++window.completed;
    window.input_tokens += record.InputTokens().value_or(0);
    window.output_tokens += record.OutputTokens();
    samples.Add(record, client_queue);
  }
  window.metrics = samples.Take();
  const auto length_ns = static_cast<int64_t>(load.duration_s * 1e9);
  if (length_ns > 0) window.mean_in_flight = MeanInFlight(steps, origin_ns, origin_ns + length_ns);
  SetRates(&window);
  return window;
}

// Within [from, to]: tokens by burst times, input of requests whose first token falls inside,
// completions by their last token, latencies of requests that began inside.
RunWindow Part(const LoadResult& load, bool client_queue, int64_t origin_ns, int64_t from_ns,
               int64_t to_ns, std::span<const InFlightStep> steps) {
  RunWindow window;
  window.start_s = SecondsFromNs(from_ns - origin_ns);
  window.duration_s = SecondsFromNs(to_ns - from_ns);
  const auto inside = [&](int64_t t) { return t >= from_ns && t <= to_ns; };
  Samples samples;
  double output = 0;
  for (const RequestRecord& record : load.records) {
    if (!record.ok() || record.bursts.empty()) continue;
    int64_t counted = 0, in = 0;
    for (const Burst& burst : record.bursts) {
      counted += burst.tokens;
      if (inside(burst.time_ns)) in += burst.tokens;
    }
    // Bursts may sum to another number than the server's count: their share of it is what is
    // inside.
    output += static_cast<double>(record.OutputTokens()) * static_cast<double>(in) /
              static_cast<double>(counted);
    if (inside(record.bursts.front().time_ns)) {
      window.input_tokens += record.InputTokens().value_or(0);
    }
    if (inside(record.bursts.back().time_ns)) ++window.completed;
    if (inside(record.send_ns)) samples.Add(record, client_queue);
  }
  window.output_tokens = std::llround(output);
  window.metrics = samples.Take();
  window.mean_in_flight = MeanInFlight(steps, from_ns, to_ns);
  SetRates(&window);
  return window;
}

RunCounts Count(const LoadGeneratorOptions& options, const LoadResult& load) {
  RunCounts counts;
  for (const RequestRecord& r : load.records) {
    ++counts.requests;
    counts.reconnects += r.reconnects;
    counts.unterminated_events += r.unterminated_event;
    counts.not_streamed += r.not_streamed;
    if (r.ok()) {
      ++counts.completed;
      const bool fixed = options.ignore_eos && r.requested_tokens > 0;
      counts.short_outputs += fixed && r.OutputTokens() < r.requested_tokens;
      continue;
    }
    const bool incomplete =
        r.failure == Failure::kCancelled || r.failure == Failure::kTimeoutConnect ||
        r.failure == Failure::kTimeoutFirst || r.failure == Failure::kTimeoutIdle ||
        r.failure == Failure::kTimeoutTotal;
    ++(incomplete ? counts.incomplete : counts.failed);
    const std::string name = r.failure == Failure::kNone ? "other" : FailureName(r.failure);
    ++counts.failures[name];
    std::vector<std::string>& messages = counts.messages[name];
    if (messages.size() < kKeptMessages) messages.push_back(r.error);
    for (const Burst& burst : r.bursts) counts.wasted_tokens += burst.tokens;
  }
  return counts;
}

// The one value of all completed records, "mixed" when they differ.
template <typename Get>
std::string CommonOf(const LoadResult& load, Get get) {
  std::set<std::string> values;
  for (const RequestRecord& record : load.records) {
    if (record.ok()) values.insert(get(record));
  }
  if (values.empty()) return "";
  return values.size() == 1 ? *values.begin() : "mixed";
}

void SetPeaks(const LoadResult& load, int64_t origin_ns, RunResult* run) {
  constexpr int64_t kSecond = 1'000'000'000;
  std::vector<std::pair<int64_t, int64_t>> tokens;
  std::map<int64_t, int64_t> seconds;
  for (const RequestRecord& record : load.records) {
    if (!record.ok()) continue;
    for (const Burst& burst : record.bursts) {
      tokens.emplace_back(burst.time_ns, burst.tokens);
      seconds[(burst.time_ns - origin_ns) / kSecond] += burst.tokens;
    }
  }
  for (const auto& [second, count] : seconds) {
    run->peak_output_tokens_per_s =
        std::max(run->peak_output_tokens_per_s, static_cast<double>(count));
  }
  std::sort(tokens.begin(), tokens.end());
  int64_t inside = 0;
  size_t oldest = 0;
  for (const auto& [time_ns, count] : tokens) {
    inside += count;
    while (tokens[oldest].first <= time_ns - 10 * kSecond) inside -= tokens[oldest++].second;
    run->peak_output_tokens_per_s_10s =
        std::max(run->peak_output_tokens_per_s_10s, static_cast<double>(inside) / 10);
  }
}

void SetBursts(const LoadResult& load, RunResult* run) {
  int64_t bursts = 0, multi = 0;
  for (const RequestRecord& record : load.records) {
    if (!record.ok()) continue;
    for (const Burst& burst : record.bursts) {
      ++bursts;
      multi += burst.events > 1;
    }
  }
  if (bursts > 0) {
    run->multi_event_bursts = static_cast<double>(multi) / static_cast<double>(bursts);
  }
}

void SetSpeculation(const LoadResult& load, RunResult* run) {
  if (!load.spec || load.spec->drafts <= 0) return;
  RunSpeculation& spec = run->speculation.emplace();
  spec.counters = *load.spec;
  spec.acceptance_length = load.spec->AcceptanceLength();
  spec.acceptance_rate = load.spec->AcceptanceRate();
  spec.per_position = load.spec->AcceptancePerPosition();
  double before = load.spec->drafts;
  for (const double accepted : load.spec->accepted_per_position) {
    spec.per_position_conditional.push_back(before > 0 ? accepted / before : 0);
    before = accepted;
  }
  spec.tokens_per_draft = load.spec->draft_tokens / load.spec->drafts;
  double later_tokens = 0, later_bursts = 0;
  for (const RequestRecord& record : load.records) {
    if (!record.ok() || record.bursts.size() < 2) continue;
    for (size_t i = 1; i < record.bursts.size(); ++i) later_tokens += record.bursts[i].tokens;
    later_bursts += static_cast<double>(record.bursts.size() - 1);
  }
  if (later_bursts > 0) spec.client_acceptance_length = later_tokens / later_bursts;
}

void SetRate(const LoadResult& load, RunResult* run) {
  if (run->load.kind == "closed" || load.records.size() < 2) return;
  int64_t first_sched = std::numeric_limits<int64_t>::max(), last_sched = INT64_MIN;
  int64_t first_send = std::numeric_limits<int64_t>::max(), last_send = INT64_MIN;
  for (const RequestRecord& record : load.records) {
    first_sched = std::min(first_sched, record.sched_ns.value_or(record.send_ns));
    last_sched = std::max(last_sched, record.sched_ns.value_or(record.send_ns));
    first_send = std::min(first_send, record.send_ns);
    last_send = std::max(last_send, record.send_ns);
  }
  const double gaps = static_cast<double>(load.records.size() - 1);
  run->requested_rate = PerSecond(gaps, SecondsFromNs(last_sched - first_sched));
  run->achieved_rate = PerSecond(gaps, SecondsFromNs(last_send - first_send));
}

void SetGoodput(const LoadResult& load, RunResult* run) {
  if (!run->goodput_limits.any()) return;
  int64_t good = 0;
  for (const RequestRecord& record : load.records) {
    good += record.ok() && MeetsLimits(record, run->goodput_limits);
  }
  run->goodput_per_s = PerSecond(static_cast<double>(good), load.duration_s);
  if (!load.records.empty()) {
    run->goodput_pct = 100 * static_cast<double>(good) / static_cast<double>(load.records.size());
  }
}

}  // namespace

bool MeetsLimits(const RequestRecord& record, const GoodputLimits& limits) {
  const auto within = [](std::optional<double> seconds, std::optional<double> limit_ms) {
    return !limit_ms || seconds.value_or(0) * kMs <= *limit_ms;
  };
  if (limits.ttft_ms && !record.Ttft()) return false;  // an answer without a stream has none
  if (!within(record.Ttft(), limits.ttft_ms) || !within(record.Tpot(), limits.tpot_ms))
    return false;
  if (!within(record.E2e() ? record.E2e() : record.E2eDone(), limits.e2e_ms)) return false;
  if (limits.itl_p95_ms) {
    std::vector<double> itl;
    record.AppendItl(&itl);
    std::sort(itl.begin(), itl.end());
    if (!itl.empty() && Percentile(itl, 95) * kMs > *limits.itl_p95_ms) return false;
  }
  const auto tpot = record.Tpot();
  return !limits.min_tps_user || !tpot || *tpot <= 0 || 1 / *tpot >= *limits.min_tps_user;
}

RunResult SummarizeRun(const LoadGeneratorOptions& options, const LoadResult& load) {
  RunResult run;
  const auto now = fmt::gmtime(std::time(nullptr));
  run.id = fmt::format("{:%Y%m%d-%H%M%S}-{:08x}", now, static_cast<uint32_t>(RandomSeed()));
  run.created = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", now);
  run.version = kVersion;
  run.workload = options.workload;
  run.workload.ignore_eos = options.ignore_eos;
  run.load = options.shape;
  run.load.max_concurrency = options.max_concurrency;
  run.base_url = options.base_url;
  run.endpoint = options.endpoint;
  run.api = ApiKindName(ApiKindOfPath(options.endpoint));
  run.model = load.model;
  run.sampling = options.extra_body;
  run.server_info = load.server_info;
  run.server_info_s = load.server_info_s;
  run.metadata = options.metadata;
  run.goodput_limits = options.goodput;
  run.client = load.client;
  run.duration_client_s = load.client_duration_s;
  run.warmup_requests = options.num_warmups;
  run.warmup_first_ms = load.warmup_first_ms;
  run.counts = Count(options, load);

  int64_t origin_ns = load.records.empty() ? 0 : load.records.front().send_ns;
  for (const RequestRecord& r : load.records) origin_ns = std::min(origin_ns, r.send_ns);
  const std::vector<InFlightStep> steps = InFlightSteps(load.records);
  const bool closed = options.shape.kind == "closed";
  const bool client_queue = !closed && options.max_concurrency > 0;
  run.whole = WholeRun(load, client_queue, origin_ns, steps);
  run.peak_in_flight = PeakInFlight(steps);
  const int64_t concurrency = closed ? options.max_concurrency : 0;
  if (const auto span = SteadySpan(load.records, steps, concurrency)) {
    run.steady = Part(load, client_queue, origin_ns, span->first, span->second, steps);
    run.steady_fraction = PerSecond(run.steady->duration_s, load.duration_s);
  }
  if (options.max_concurrency > 0) {
    run.waves = static_cast<double>(load.records.size()) / options.max_concurrency;
  }
  int64_t retokenized = 0;
  bool all_retokenized = run.counts.completed > 0;
  for (const RequestRecord& r : load.records) {
    run.output_tokens_requested += r.requested_tokens;
    if (!r.ok()) continue;
    run.input_tokens_planned += r.planned_prompt_tokens.value_or(0);
    run.cached_tokens += r.cached_tokens.value_or(0);
    retokenized += r.retokenized_tokens.value_or(0);
    all_retokenized &= r.retokenized_tokens.has_value();
  }
  if (all_retokenized) run.output_tokens_retokenized = retokenized;
  run.output_count_basis =
      CommonOf(load, [](const RequestRecord& r) { return r.OutputCountBasis(); });
  run.itl_basis =
      CommonOf(load, [](const RequestRecord& r) { return BurstBasisName(r.burst_basis); });
  SetPeaks(load, origin_ns, &run);
  SetBursts(load, &run);
  SetSpeculation(load, &run);
  SetRate(load, &run);
  SetGoodput(load, &run);
  return run;
}

}  // namespace firesteel
