#include "bench/run_validity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/client_monitor.h"
#include "bench/in_flight.h"
#include "bench/run_summary.h"

namespace firesteel {
namespace {

constexpr int64_t kMs = 1'000'000;

// 40 s of one request a second or so, four at a time: nothing to find.
struct Case {
  LoadGeneratorOptions options;
  LoadResult load;

  Case() {
    options.max_concurrency = 4;
    options.ignore_eos = true;
    for (int i = 0; i < 160; ++i) {
      RequestRecord r;
      r.prompt_id = std::to_string(i);
      r.sched_ns = r.send_ns = (i / 4) * 1000 * kMs + (i % 4) * kMs;
      r.bursts = {{r.send_ns + 100 * kMs, 1}, {r.send_ns + 900 * kMs, 9}};
      r.burst_basis = BurstBasis::kTokenIds;
      r.done_ns = r.send_ns + 999 * kMs;
      r.http_status = 200;
      r.completion_tokens = r.requested_tokens = 10;
      r.prompt_tokens = r.planned_prompt_tokens = 20;
      load.records.push_back(r);
    }
    load.duration_s = 40;
    load.client.wall_s = 40;
    load.client.cpu_s = 1;
    load.client.lag_samples = 10'000;
    load.client.lag_p99_ms = 0.1;
  }

  FindingSeverity SeverityOf(const std::string& id, bool* found) const {
    const RunResult run = MakeRunResult(options, load);
    for (const RunFinding& f : run.findings) {
      if (f.id == id) {
        *found = true;
        return f.severity;
      }
    }
    *found = false;
    return FindingSeverity::kNote;
  }
};

TEST(RunValidityTest, AGoodRunHasNoFinding) {
  const Case good;
  const RunResult run = MakeRunResult(good.options, good.load);
  for (const RunFinding& f : run.findings) ADD_FAILURE() << f.id << ": " << f.message;
  EXPECT_EQ(run.Status(), RunStatus::kValid);
}

TEST(RunValidityTest, EachRuleFindsItsFault) {
  const struct {
    const char* id;
    FindingSeverity severity;
    std::function<void(Case*)> spoil;
  } kCases[] = {
      {"NO_SUCCESS", FindingSeverity::kVoid,
       [](Case* c) {
         for (auto& r : c->load.records) r.error = "x";
       }},
      {"FAILURES", FindingSeverity::kVoid,
       [](Case* c) { c->load.records[0].error = c->load.records[1].error = "x"; }},
      {"SOME_FAILURES", FindingSeverity::kWarning, [](Case* c) { c->load.records[0].error = "x"; }},
      {"EARLY_EOS", FindingSeverity::kVoid,
       [](Case* c) {
         for (auto& r : c->load.records) r.requested_tokens = 11;
       }},
      {"SHORT_OUTPUT", FindingSeverity::kNote,
       [](Case* c) { c->load.records[0].requested_tokens = 11; }},
      {"CACHE_HITS", FindingSeverity::kVoid,
       [](Case* c) {
         c->options.flush_cache = true;
         for (auto& r : c->load.records) r.cached_tokens = 1;
       }},
      {"FOREIGN_TRAFFIC", FindingSeverity::kVoid, [](Case* c) { c->load.requests_counted = 161; }},
      {"PROMPT_LEN_DRIFT", FindingSeverity::kWarning,
       [](Case* c) {
         for (auto& r : c->load.records) r.prompt_tokens = 21;
       }},
      {"CLIENT_LIMIT", FindingSeverity::kVoid, [](Case* c) { c->load.client.cpu_s = 37; }},
      {"CLIENT_LIMIT", FindingSeverity::kVoid, [](Case* c) { c->load.client.lag_p99_ms = 1.5; }},
      {"CPU_WITHHELD", FindingSeverity::kVoid,
       [](Case* c) {
         c->load.client.lag_p99_ms = 1.5;
         c->load.client.withheld_s = 2;
       }},
      {"CLIENT_BEHIND", FindingSeverity::kVoid,
       [](Case* c) {
         c->options.shape.kind = "poisson";
         c->options.max_concurrency = 0;
         for (auto& r : c->load.records) r.sched_ns = r.send_ns - 20 * kMs;
       }},
      {"CLIENT_QUEUE", FindingSeverity::kWarning,
       [](Case* c) {
         c->options.shape.kind = "poisson";
         for (auto& r : c->load.records) r.sched_ns = r.send_ns - 100 * kMs;
       }},
      {"SHORT_RUN", FindingSeverity::kWarning,
       [](Case* c) {
         c->load.records.resize(80);
         c->load.duration_s = 20;
       }},
      {"OUTPUT_NOT_COUNTED", FindingSeverity::kUnverified,
       [](Case* c) {
         for (auto& r : c->load.records) r.completion_tokens.reset();
       }},
      {"CHUNKED_ITL", FindingSeverity::kWarning,
       [](Case* c) {
         for (auto& r : c->load.records) r.burst_basis = BurstBasis::kChunk;
       }},
      {"RETOKENIZED_DRIFT", FindingSeverity::kNote,
       [](Case* c) {
         for (auto& r : c->load.records) r.retokenized_tokens = 11;
       }},
      {"ACCEPTANCE_DRIFT", FindingSeverity::kNote,
       [](Case* c) {
         c->load.spec = SpecCounters{.drafts = 10, .draft_tokens = 30, .accepted_tokens = 10};
       }},
      {"RECONNECTS", FindingSeverity::kNote, [](Case* c) { c->load.records[3].reconnects = 1; }},
      {"NOT_STREAMED", FindingSeverity::kWarning,
       [](Case* c) { c->load.records[3].not_streamed = true; }},
      {"INTERRUPTED", FindingSeverity::kWarning, [](Case* c) { c->load.interrupted = true; }},
      {"SYNTHETIC_TEXT", FindingSeverity::kNote,
       [](Case* c) { c->options.workload.synthetic_text = "noise"; }},
      {"SELF_CHECK", FindingSeverity::kVoid,
       [](Case* c) { std::swap(c->load.records[5].bursts[0], c->load.records[5].bursts[1]); }},
      {"SELF_CHECK", FindingSeverity::kVoid,
       [](Case* c) {
         for (auto& r : c->load.records) r.done_ns += 2000 * kMs;
       }},
  };
  for (const auto& c : kCases) {
    Case spoiled;
    bool found = false;
    spoiled.SeverityOf(c.id, &found);
    EXPECT_FALSE(found) << c.id << " in a good run";
    c.spoil(&spoiled);
    const FindingSeverity severity = spoiled.SeverityOf(c.id, &found);
    EXPECT_TRUE(found) << c.id;
    EXPECT_EQ(severity, c.severity) << c.id;
  }
}

TEST(RunValidityTest, FewLooksAtTheClientAreNoVerdict) {
  Case c;
  c.load.client.lag_samples = 50;
  c.load.client.lag_p99_ms = 5;
  EXPECT_EQ(MakeRunResult(c.options, c.load).Status(), RunStatus::kValid);
}

TEST(InFlightTest, AnEndComesBeforeAStart) {
  std::vector<RequestRecord> records(2);
  records[0].send_ns = 0;
  records[0].done_ns = records[1].send_ns = 10;
  records[1].done_ns = 30;
  const auto steps = InFlightSteps(records);
  EXPECT_EQ(PeakInFlight(steps), 1);
  EXPECT_DOUBLE_EQ(MeanInFlight(steps, 0, 40), 0.75);
  EXPECT_EQ(SteadySpan(records, steps, 0), (std::pair<int64_t, int64_t>(0, 30)));
  EXPECT_EQ(SteadySpan(records, steps, 1), (std::pair<int64_t, int64_t>(0, 10)));
}

TEST(ClientMonitorTest, AStallCountsForAsLongAsItLasts) {
  LagHistogram histogram;
  for (int64_t i = 1; i <= 1000; ++i) histogram.Add(i * 1000);
  EXPECT_NEAR(static_cast<double>(histogram.Percentile(50)), 500e3, 500e3 * 0.02);
  EXPECT_NEAR(static_cast<double>(histogram.Percentile(99)), 990e3, 990e3 * 0.02);
  EXPECT_EQ(histogram.Percentile(100), histogram.max_ns());
  EXPECT_EQ(LagHistogram().Percentile(99), 0);
  LagHistogram small;
  small.Add(5);
  EXPECT_EQ(small.Percentile(99), 5);

  // A second of ticks on time, but for 20 ms without a turn: 2 % of the time somebody waited.
  ClientMonitor monitor(0);
  for (int64_t now = kMs; now <= 980 * kMs; now += kMs) monitor.OnTurn(now);
  monitor.OnTurn(1000 * kMs);
  const ClientHealth health = monitor.Finish(1000 * kMs, 900 * kMs, 7);
  EXPECT_EQ(health.lag_samples, 1000);
  EXPECT_NEAR(health.lag_p99_ms, 9.5, 1);
  EXPECT_NEAR(health.lag_max_ms, 19, 0.01);
  EXPECT_NEAR(health.busy_s, 0.1, 1e-9);
}

TEST(GoodputTest, EveryLimitHasToBeKept) {
  RequestRecord r;
  r.send_ns = 0;
  r.bursts = {{100 * kMs, 1}, {200 * kMs, 10}};
  r.done_ns = 210 * kMs;
  r.completion_tokens = 11;
  EXPECT_TRUE(MeetsLimits(
      r,
      {.ttft_ms = 100, .tpot_ms = 10, .e2e_ms = 200, .itl_p95_ms = 10.001, .min_tps_user = 100}));
  EXPECT_FALSE(MeetsLimits(
      r, {.ttft_ms = 99, .tpot_ms = {}, .e2e_ms = {}, .itl_p95_ms = {}, .min_tps_user = {}}));
  EXPECT_FALSE(MeetsLimits(
      r, {.ttft_ms = {}, .tpot_ms = 9.9, .e2e_ms = {}, .itl_p95_ms = {}, .min_tps_user = {}}));
  EXPECT_FALSE(MeetsLimits(
      r, {.ttft_ms = {}, .tpot_ms = {}, .e2e_ms = 199, .itl_p95_ms = {}, .min_tps_user = {}}));
  EXPECT_FALSE(MeetsLimits(
      r, {.ttft_ms = {}, .tpot_ms = {}, .e2e_ms = {}, .itl_p95_ms = 9.9, .min_tps_user = {}}));
  EXPECT_FALSE(MeetsLimits(
      r, {.ttft_ms = {}, .tpot_ms = {}, .e2e_ms = {}, .itl_p95_ms = {}, .min_tps_user = 101}));
  r.bursts.resize(1);
  r.completion_tokens = 1;  // one token has no time per token
  EXPECT_TRUE(MeetsLimits(
      r, {.ttft_ms = {}, .tpot_ms = 1, .e2e_ms = {}, .itl_p95_ms = {}, .min_tps_user = 1000}));
}

}  // namespace
}  // namespace firesteel
