#include "bench/run_validity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/run_summary.h"

namespace firesteel {
namespace {

constexpr double kFailureShare = 0.01;
constexpr double kEarlyEosShare = 0.98;
constexpr double kCacheHitShare = 0.01;
constexpr double kAchievedShare = 0.98;
constexpr double kCpuShare = 0.9;
// Below so many looks a 99th percentile of the client's lag says nothing.
constexpr int64_t kLagSamples = 200;
// A core that was taken away for this share of the time explains a late 99th percentile.
constexpr double kWithheldShare = 0.01;
constexpr double kShortWindowS = 30;
constexpr double kFewWaves = 8;
constexpr double kSteadyShare = 0.6;

class Judge {
 public:
  Judge(const LoadGeneratorOptions& options, const LoadResult& load, RunResult* run)
      : options_(options), load_(load), run_(*run) {
    run_.findings.clear();
  }

  void All() {
    Outcome();
    Work();
    Client();
    Arrivals();
    Length();
    Counting();
    Self();
  }

 private:
  template <typename... Args>
  void Add(FindingSeverity severity, const char* id, fmt::format_string<Args...> format,
           Args&&... args) {
    run_.findings.push_back({id, severity, fmt::format(format, std::forward<Args>(args)...)});
  }

  double Mean(const char* name) const {
    const Statistics* s = run_.whole.Find(name);
    return s == nullptr ? 0 : s->mean;
  }

  void Outcome() {
    const RunCounts& c = run_.counts;
    const int64_t lost = c.requests - c.completed;
    if (c.completed == 0) {
      Add(FindingSeverity::kVoid, "NO_SUCCESS", "none of {} requests succeeded", c.requests);
    } else if (static_cast<double>(lost) > kFailureShare * static_cast<double>(c.requests)) {
      Add(FindingSeverity::kVoid, "FAILURES", "{} of {} requests failed, at most 1 % may", lost,
          c.requests);
    } else if (lost > 0) {
      Add(FindingSeverity::kWarning, "SOME_FAILURES", "{} of {} requests failed", lost, c.requests);
    }
    if (load_.interrupted) {
      Add(FindingSeverity::kWarning, "INTERRUPTED", "the run was stopped after {} requests",
          c.completed);
    }
    if (c.reconnects > 0) {
      Add(FindingSeverity::kNote, "RECONNECTS",
          "{} requests were sent again on a new connection, their clocks running on", c.reconnects);
    }
    if (c.not_streamed > 0) {
      Add(FindingSeverity::kWarning, "NOT_STREAMED",
          "{} answers came in one piece: they have no time of a first token", c.not_streamed);
    }
  }

  void Work() {
    int64_t wanted = 0, got = 0, planned = 0, counted = 0;
    for (const RequestRecord& r : load_.records) {
      if (!r.ok()) continue;
      wanted += r.requested_tokens;
      got += r.OutputTokens();
      if (r.planned_prompt_tokens && r.prompt_tokens) {
        planned += *r.planned_prompt_tokens;
        counted += *r.prompt_tokens;
      }
    }
    if (options_.ignore_eos && wanted > 0) {
      if (static_cast<double>(got) < kEarlyEosShare * static_cast<double>(wanted)) {
        Add(FindingSeverity::kVoid, "EARLY_EOS",
            "answers hold {} tokens of {} that were asked for with ignore_eos", got, wanted);
      } else if (run_.counts.short_outputs > 0) {
        Add(FindingSeverity::kNote, "SHORT_OUTPUT", "{} answers are shorter than asked for",
            run_.counts.short_outputs);
      }
    }
    if (options_.flush_cache && run_.whole.input_tokens > 0) {
      const double share =
          static_cast<double>(run_.cached_tokens) / static_cast<double>(run_.whole.input_tokens);
      if (share > kCacheHitShare) {
        Add(FindingSeverity::kVoid, "CACHE_HITS",
            "{:.1f} % of the input came from the cache that was dropped before the run",
            100 * share);
      }
    }
    if (planned > 0 && std::abs(counted - planned) > planned / 100) {
      Add(FindingSeverity::kWarning, "PROMPT_LEN_DRIFT",
          "the server counts {} input tokens where {} were planned: another tokenizer", counted,
          planned);
    }
    if (load_.requests_counted &&
        *load_.requests_counted > static_cast<double>(run_.counts.requests)) {
      Add(FindingSeverity::kVoid, "FOREIGN_TRAFFIC",
          "the server served {:.0f} requests meanwhile, {} are ours", *load_.requests_counted,
          run_.counts.requests);
    }
    if (!run_.workload.synthetic_text.empty()) {
      Add(FindingSeverity::kNote, "SYNTHETIC_TEXT",
          "the text is {}: acceptance of drafts is not that of real text",
          run_.workload.synthetic_text);
    }
  }

  void Client() {
    const ClientHealth& c = run_.client;
    if (c.wall_s <= 0) return;
    const double cpu = c.cpu_s / c.wall_s;
    const double withheld = c.withheld_s / c.wall_s;
    const bool late = c.lag_samples >= kLagSamples && c.lag_p99_ms > options_.max_client_lag_ms;
    if (cpu > kCpuShare) {
      Add(FindingSeverity::kVoid, "CLIENT_LIMIT",
          "the client's thread was busy for {:.0f} % of the run, at most 90 % may be", 100 * cpu);
    } else if (late && withheld < kWithheldShare) {
      Add(FindingSeverity::kVoid, "CLIENT_LIMIT",
          "the client saw what arrived {:.2f} ms late at P99, at most {:g} ms may be", c.lag_p99_ms,
          options_.max_client_lag_ms);
    }
    if (late && withheld >= kWithheldShare) {
      Add(FindingSeverity::kVoid, "CPU_WITHHELD",
          "the machine kept the client from its core for {:.1f} % of the run: it saw what arrived "
          "{:.2f} ms late at P99, at most {:g} ms may be",
          100 * withheld, c.lag_p99_ms, options_.max_client_lag_ms);
    }
  }

  void Arrivals() {
    if (run_.load.kind == "closed") return;
    const Statistics* delay = run_.whole.Find("schedule_delay_ms");
    const double gap_ms = run_.requested_rate > 0 ? 1000 / run_.requested_rate : 0;
    if (options_.max_concurrency == 0 && delay != nullptr) {
      const double limit_ms = std::max(options_.max_client_lag_ms, gap_ms / 100);
      if (delay->p99 > limit_ms && delay->count >= static_cast<size_t>(kFewWaves)) {
        Add(FindingSeverity::kVoid, "CLIENT_BEHIND",
            "requests were sent {:.2f} ms late at P99, at most {:.2f} ms may be", delay->p99,
            limit_ms);
      } else if (run_.achieved_rate < kAchievedShare * run_.requested_rate) {
        Add(FindingSeverity::kVoid, "CLIENT_BEHIND",
            "{:.2f} requests a second were sent, {:.2f} were due", run_.achieved_rate,
            run_.requested_rate);
      }
    }
    const double queue = Mean("client_queue_ms");
    const double e2e = Mean("e2e_ms");
    if (queue > 0.05 * e2e && queue > 0) {
      Add(FindingSeverity::kWarning, "CLIENT_QUEUE",
          "requests waited {:.1f} ms for a slot on average: latency is {:.1f} ms from sending, "
          "{:.1f} ms from when they were due",
          queue, e2e, Mean("e2e_sched_ms"));
    }
  }

  void Length() {
    const double steady_s = run_.steady ? run_.steady->duration_s : 0;
    const bool few = run_.waves > 0 && run_.waves < kFewWaves;
    if (steady_s < kShortWindowS || few) {
      Add(FindingSeverity::kWarning, "SHORT_RUN",
          "the steady part lasts {:.1f} s and {:.1f} waves, expected 30 s and 8 waves", steady_s,
          run_.waves);
    }
    if (run_.steady_fraction < kSteadyShare) {
      Add(FindingSeverity::kWarning, "EDGE_DOMINATED",
          "{:.0f} % of the run is steady, the rest is filling and draining",
          100 * run_.steady_fraction);
    }
  }

  void Counting() {
    if (run_.output_count_basis == "chunks" || run_.output_count_basis == "mixed") {
      Add(FindingSeverity::kUnverified, "OUTPUT_NOT_COUNTED",
          "nobody counted the output tokens of some answers: stream events were counted instead");
    }
    const double icl = Mean("icl_ms"), tpot = Mean("tpot_ms");
    if (run_.itl_basis == "chunk" && tpot > 0 && icl / tpot > 1.15) {
      Add(FindingSeverity::kWarning, "CHUNKED_ITL",
          "one stream event holds {:.2f} tokens on average: ITL is the time between events",
          icl / tpot);
    }
    if (run_.output_tokens_retokenized && run_.whole.output_tokens > 0 &&
        run_.output_count_basis != "retokenized") {
      const double ratio = static_cast<double>(*run_.output_tokens_retokenized) /
                           static_cast<double>(run_.whole.output_tokens);
      if (std::abs(ratio - 1) > 0.02) {
        Add(FindingSeverity::kNote, "RETOKENIZED_DRIFT",
            "the text tokenized again has {} tokens, the server counted {}",
            *run_.output_tokens_retokenized, run_.whole.output_tokens);
      }
    }
    if (run_.speculation && run_.speculation->acceptance_length &&
        run_.speculation->client_acceptance_length) {
      const double server = *run_.speculation->acceptance_length;
      const double client = *run_.speculation->client_acceptance_length;
      if (std::abs(client / server - 1) > 0.1) {
        Add(FindingSeverity::kNote, "ACCEPTANCE_DRIFT",
            "the stream shows {:.2f} tokens a step, the server counts {:.2f}: steps without a "
            "draft, or events that came together",
            client, server);
      }
    }
  }

  // What can only be wrong if the figures are.
  void Self() {
    if (load_.duration_s < 0) {
      Add(FindingSeverity::kVoid, "SELF_CHECK", "the run lasts {} s", load_.duration_s);
    }
    if (run_.load.max_concurrency > 0 &&
        run_.whole.mean_in_flight > run_.load.max_concurrency * 1.02) {
      Add(FindingSeverity::kVoid, "SELF_CHECK",
          "{:.2f} requests were in flight on average, at most {} may be", run_.whole.mean_in_flight,
          run_.load.max_concurrency);
    }
    if (load_.duration_s >= 2 &&
        run_.peak_output_tokens_per_s < 0.98 * run_.whole.output_tokens_per_s &&
        run_.itl_basis != "chunk") {
      Add(FindingSeverity::kVoid, "SELF_CHECK",
          "the fullest second holds {:.0f} tokens, fewer than the mean of {:.1f}",
          run_.peak_output_tokens_per_s, run_.whole.output_tokens_per_s);
    }
    for (const RequestRecord& r : load_.records) {
      const bool backwards =
          std::adjacent_find(r.bursts.begin(), r.bursts.end(), [](const Burst& a, const Burst& b) {
            return b.time_ns < a.time_ns;
          }) != r.bursts.end();
      const bool before = !r.bursts.empty() && r.bursts.front().time_ns < r.send_ns;
      if (backwards || before) {
        Add(FindingSeverity::kVoid, "SELF_CHECK", "request {}: its times go backwards",
            r.prompt_id);
        return;
      }
    }
  }

  const LoadGeneratorOptions& options_;
  const LoadResult& load_;
  RunResult& run_;
};

}  // namespace

void JudgeRun(const LoadGeneratorOptions& options, const LoadResult& load, RunResult* run) {
  Judge(options, load, run).All();
}

RunResult MakeRunResult(const LoadGeneratorOptions& options, const LoadResult& load) {
  RunResult run = SummarizeRun(options, load);
  JudgeRun(options, load, &run);
  return run;
}

}  // namespace firesteel
