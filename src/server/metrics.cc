#include "server/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace firesteel {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

// vLLM's buckets.
constexpr double kFirstTokenBounds[] = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                        0.25,  0.5,   0.75, 1.0,  2.5,  5.0,  7.5,  10.0,
                                        20.0,  40.0,  80.0, 160,  640,  2560};
constexpr double kInterTokenBounds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,
                                        0.15,  0.2,    0.3,   0.4,  0.5,   0.75, 1.0,   2.5,
                                        5.0,   7.5,    10,    20,   40,    80};
constexpr double kRequestBounds[] = {0.05, 0.1, 0.3,   0.5,   0.8,   1.0,   1.5,  2.0,
                                     2.5,  5.0, 10.0,  15.0,  20,    30.0,  40.0, 50.0,
                                     60.0, 120, 240.0, 480.0, 960.0, 1920.0};

constexpr double kTokenBounds[] = {1,    2,    5,    10,     20,     50,     100,     200,    500,
                                   1000, 2000, 5000, 10'000, 20'000, 50'000, 100'000, 200'000};

// Collects families; every sample carries the two labels that vLLM gives.
class Page {
 public:
  explicit Page(const std::string& model_name)
      : base_{{"model_name", model_name}, {"engine", "0"}} {}

  void Counter(const std::string& name, const char* help, double value, Labels labels = {}) {
    Family(name, help, MetricType::Counter);
    AddCounter(value, std::move(labels));
  }
  void Gauge(const std::string& name, const char* help, double value, Labels labels = {}) {
    Family(name, help, MetricType::Gauge);
    AddGauge(value, std::move(labels));
  }
  void Family(const std::string& name, const char* help, MetricType type) {
    families_.push_back({.name = name, .help = help, .type = type, .metric = {}});
  }
  // To the last family.
  void AddCounter(double value, Labels labels) {
    families_.back().metric.push_back(Sample(std::move(labels)));
    families_.back().metric.back().counter.value = value;
  }
  void AddGauge(double value, Labels labels) {
    families_.back().metric.push_back(Sample(std::move(labels)));
    families_.back().metric.back().gauge.value = value;
  }
  void AddHistogram(const StatHistogram& histogram, Labels labels) {
    AddBuckets(histogram.bounds, histogram.counts, histogram.sum, std::move(labels));
  }
  void Histogram(const std::string& name, const char* help, const firesteel::Histogram& histogram) {
    Family(name, help, MetricType::Histogram);
    AddBuckets(histogram.bounds(), histogram.counts(), histogram.sum(), {});
  }
  void Histogram(const std::string& name, const char* help, const StatHistogram& histogram,
                 Labels labels) {
    Family(name, help, MetricType::Histogram);
    AddHistogram(histogram, std::move(labels));
  }
  std::string Text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  // `counts` holds one more than `bounds`, or more that are not used.
  template <typename Counts>
  void AddBuckets(std::span<const double> bounds, const Counts& counts, double sum, Labels labels) {
    ClientMetric sample = Sample(std::move(labels));
    uint64_t cumulative = 0;
    for (size_t i = 0; i <= bounds.size(); ++i) {
      cumulative += static_cast<uint64_t>(counts[i]);
      sample.histogram.bucket.push_back(
          {.cumulative_count = cumulative,
           .upper_bound =
               i == bounds.size() ? std::numeric_limits<double>::infinity() : bounds[i]});
    }
    sample.histogram.sample_count = cumulative;
    sample.histogram.sample_sum = sum;
    families_.back().metric.push_back(std::move(sample));
  }
  ClientMetric Sample(Labels labels) const {
    ClientMetric sample;
    sample.label = base_;
    sample.label.insert(sample.label.end(), labels.begin(), labels.end());
    return sample;
  }

  Labels base_;
  std::vector<MetricFamily> families_;
};

double Number(int64_t n) { return static_cast<double>(n); }

void AddRequests(const EngineStats& stats, Page& page) {
  page.Gauge("vllm:num_requests_running", "Requests in the running batch.", stats.running);
  page.Gauge("vllm:num_requests_waiting", "Requests waiting to be scheduled.", stats.waiting);
  page.Gauge("vllm:kv_cache_usage_perc", "KV blocks held by requests, 1 means all.",
             stats.kv_blocks_total == 0
                 ? 0.0
                 : Number(stats.kv_blocks_used) / Number(stats.kv_blocks_total));
  page.Counter("vllm:prompt_tokens_total", "Prompt tokens processed, cached ones included.",
               Number(stats.prompt_tokens));
  page.Counter("vllm:generation_tokens_total", "Tokens generated.",
               Number(stats.generation_tokens));
  page.Counter("vllm:num_preemptions_total", "Times a request was put back for want of KV blocks.",
               Number(stats.preemptions));
  page.Counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
               Number(stats.prompt_tokens));
  page.Counter("vllm:prefix_cache_hits_total", "Prompt tokens found there.",
               Number(stats.cached_tokens));
  page.Family("vllm:request_success_total", "Requests ended, by reason.", MetricType::Counter);
  page.AddCounter(Number(stats.requests_finished_stop), {{"finished_reason", "stop"}});
  page.AddCounter(Number(stats.requests_finished_length), {{"finished_reason", "length"}});
  page.AddCounter(Number(stats.requests_cancelled), {{"finished_reason", "abort"}});
  page.AddCounter(Number(stats.requests_failed), {{"finished_reason", "error"}});
}

void AddVllmSpeculation(const EngineStats& stats, Page& page) {
  page.Counter("vllm:spec_decode_num_drafts_total",
               "Rounds with at least one verified draft token.", Number(stats.spec_rounds));
  page.Counter("vllm:spec_decode_num_draft_tokens_total", "Draft tokens verified.",
               Number(stats.spec_verified));
  page.Counter("vllm:spec_decode_num_accepted_tokens_total", "Draft tokens accepted.",
               Number(stats.spec_accepted));
  page.Family("vllm:spec_decode_num_accepted_tokens_per_pos_total",
              "Draft tokens accepted, by position.", MetricType::Counter);
  for (size_t i = 0; i < stats.spec_accepted_per_position.size(); ++i) {
    page.AddCounter(Number(stats.spec_accepted_per_position[i]), {{"position", std::to_string(i)}});
  }
}

void AddDraftCounts(const EngineStats& stats, const ModelSummary& summary, Page& page) {
  const ClientMetric::Label by_method{"method", summary.spec_method};
  page.Counter("spec_drafted_tokens_total", "Draft tokens produced.", Number(stats.spec_drafted),
               {by_method});
  page.Family("spec_invalidated_tokens_total",
              "Draft tokens removed before scheduling: behind an end of the text (eos), above what "
              "was asked for (limit), not a valid draft (malformed).",
              MetricType::Counter);
  page.AddCounter(Number(stats.spec_invalidated_eos), {by_method, {"reason", "eos"}});
  page.AddCounter(Number(stats.spec_invalidated_limit), {by_method, {"reason", "limit"}});
  page.AddCounter(Number(stats.spec_invalidated_malformed), {by_method, {"reason", "malformed"}});
  page.Counter("spec_trimmed_tokens_total", "Draft tokens not verified by decision.",
               Number(stats.spec_trimmed), {by_method});
  page.Counter("spec_verified_tokens_total", "Draft tokens sent to the target.",
               Number(stats.spec_verified), {by_method});
  page.Family("spec_accepted_tokens_total", "Draft tokens accepted, by position.",
              MetricType::Counter);
  for (size_t i = 0; i < stats.spec_accepted_per_position.size(); ++i) {
    page.AddCounter(Number(stats.spec_accepted_per_position[i]),
                    {by_method, {"position", std::to_string(i)}});
  }
  page.Family("spec_reached_total",
              "Rounds whose earlier positions were all accepted, by position.",
              MetricType::Counter);
  for (size_t i = 0; i < stats.spec_reached_per_position.size(); ++i) {
    page.AddCounter(Number(stats.spec_reached_per_position[i]),
                    {by_method, {"position", std::to_string(i)}});
  }
  page.Family("spec_rounds_total", "Rounds that gave tokens, by verified draft tokens.",
              MetricType::Counter);
  const auto& rounds = stats.spec_rounds_per_length;
  const auto longest = static_cast<size_t>(summary.spec_tokens);
  for (size_t k = 0; k < std::max(rounds.size(), longest + 1); ++k) {
    page.AddCounter(k < rounds.size() ? Number(rounds[k]) : 0,
                    {by_method, {"k", std::to_string(k)}});
  }
  page.Counter("spec_cut_by_stop_tokens_total",
               "Tokens committed by the verifier, then cut by a stop.",
               Number(stats.spec_cut_by_stop), {by_method});
  // Never, as long as the drafter's keys lie in the target's blocks: a hit finds both, and who was
  // preempted computes both again.
  page.Family("spec_draft_state_missing_total",
              "Rounds without a draft for want of the drafter's state.", MetricType::Counter);
  for (const char* reason : {"prefix_hit", "resume"}) page.AddCounter(0, {{"reason", reason}});
}

void AddDraftless(const EngineStats& stats, Page& page) {
  page.Family("spec_disabled_seconds_total",
              "Time of steps in which nobody drafted though somebody might have, by reason.",
              MetricType::Counter);
  for (size_t i = 0; i < kDraftlessReasonNames.size(); ++i) {
    page.AddCounter(stats.spec_disabled_seconds[i], {{"reason", kDraftlessReasonNames[i]}});
  }
}

void AddCalibration(const EngineStats& stats, Page& page) {
  page.Family("spec_calibration_ece",
              "Expected calibration error of the chances of acceptance, by position.",
              MetricType::Gauge);
  for (size_t i = 0; i < stats.spec_calibration_ece.size(); ++i) {
    page.AddGauge(stats.spec_calibration_ece[i], {{"position", std::to_string(i)}});
  }
  page.Gauge("spec_calibration_brier", "Mean square error of the chances of acceptance.",
             stats.spec_calibration_brier);
}

void AddSteps(const EngineStats& stats, Page& page) {
  page.Counter("engine_steps_total", "Steps of the engine.", Number(stats.steps));
  page.Family("spec_step_seconds", "Time of one step, by phase.", MetricType::Histogram);
  page.AddHistogram(stats.seconds_draft, {{"phase", "draft"}});
  page.AddHistogram(stats.seconds_forward, {{"phase", "verify"}});
  page.AddHistogram(stats.seconds_sample, {{"phase", "sample"}});
  page.AddHistogram(stats.seconds_observe, {{"phase", "inject"}});
  page.AddHistogram(stats.seconds_schedule, {{"phase", "schedule"}});
  page.Histogram("spec_verify_rows", "Rows that one pass of the target verifies, anchors included.",
                 stats.spec_verify_rows, {});
  page.Histogram("spec_budget_rows_per_request",
                 "Rows of a request in a round: its anchor and what is verified.",
                 stats.spec_budget_rows, {});
}

void AddRule(const std::string& rule, Page& page) {
  page.Gauge("spec_lossless", "1 where the verification rule keeps the target's distribution.",
             rule == "typical" ? 0 : 1, {{"rule", rule}});
}

}  // namespace

Histogram::Histogram(std::span<const double> bounds)
    : bounds_(bounds.begin(), bounds.end()), counts_(bounds.size() + 1) {}

void Histogram::Observe(double value) {
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  ++counts_[static_cast<size_t>(bucket - bounds_.begin())];
  sum_ += value;
}

ServerMetrics::ServerMetrics()
    : time_to_first_token(kFirstTokenBounds),
      inter_token(kInterTokenBounds),
      e2e(kRequestBounds),
      time_per_output_token(kInterTokenBounds),
      prompt_tokens(kTokenBounds),
      generation_tokens(kTokenBounds) {}

std::string ServerMetrics::Render(const EngineStats& stats, const ModelSummary& summary,
                                  const std::string& model_name,
                                  const std::string& verify_rule) const {
  Page page(model_name);
  AddRequests(stats, page);
  page.Histogram("vllm:time_to_first_token_seconds", "From arrival to the first token.",
                 time_to_first_token);
  page.Histogram("vllm:inter_token_latency_seconds",
                 "Between two deliveries of tokens to a request.", inter_token);
  page.Histogram("vllm:time_per_output_token_seconds", "The same under its older name.",
                 inter_token);
  page.Histogram("vllm:request_time_per_output_token_seconds",
                 "Mean time per output token of a request.", time_per_output_token);
  page.Histogram("vllm:e2e_request_latency_seconds", "From arrival to the end.", e2e);
  page.Histogram("vllm:request_prompt_tokens", "Prompt tokens of a request that ended.",
                 prompt_tokens);
  page.Histogram("vllm:request_generation_tokens", "Tokens generated for a request that ended.",
                 generation_tokens);
  AddVllmSpeculation(stats, page);
  AddDraftCounts(stats, summary, page);
  AddDraftless(stats, page);
  AddCalibration(stats, page);
  AddSteps(stats, page);
  AddRule(verify_rule, page);
  return page.Text();
}

}  // namespace firesteel
