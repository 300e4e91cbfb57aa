#include "bench/serve_report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "bench/run_validity.h"

namespace firesteel {
namespace {

constexpr double kMsPerSecond = 1000;
constexpr size_t kColumns = 50;

std::string Heading(std::string_view title, char fill) {
  const size_t left = (kColumns - std::min(kColumns, title.size())) / 2;
  std::string line = std::string(left, fill) + std::string(title);
  line.resize(std::max(kColumns, line.size()), fill);
  return line + '\n';
}

std::string Row(std::string_view label, const std::string& value) {
  return fmt::format("{:<40} {:<10}\n", label, value);
}

std::string Fixed(double value) { return fmt::format("{:.2f}", value); }

std::string LatencyRows(std::string_view title, std::string_view name, const Statistics& s) {
  std::string out = Heading(title, '-');
  const auto row = [&](std::string_view what, double value) {
    out += Row(fmt::format("{} {} (ms):", what, name), s.count == 0 ? "n/a" : Fixed(value));
  };
  row("Mean", s.mean);
  row("Median", s.median);
  row("P95", s.p95);
  row("P99", s.p99);
  return out;
}

void AddStatistics(const char* name, const Statistics& s, Json* json) {
  const auto put = [&](const char* what, double value) {
    (*json)[fmt::format("{}_{}_ms", what, name)] = s.count == 0 ? Json() : Json(value);
  };
  put("mean", s.mean);
  put("median", s.median);
  put("std", s.std);
  put("p95", s.p95);
  put("p99", s.p99);
  put("min", s.min);
  put("max", s.max);
}

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

int64_t FirstSendNs(const std::vector<RequestRecord>& records) {
  int64_t first = records.empty() ? 0 : records.front().send_ns;
  for (const RequestRecord& record : records) first = std::min(first, record.send_ns);
  return first;
}

std::string UtcNow() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

}  // namespace

ServeMetrics ComputeServeMetrics(const LoadResult& result) {
  ServeMetrics m;
  m.duration_s = result.duration_s;
  m.spec = result.spec;
  std::vector<double> ttft, tpot, itl, e2e;
  for (const RequestRecord& record : result.records) {
    if (!record.ok()) {
      ++m.failed;
      ++m.errors[record.error];
      continue;
    }
    ++m.completed;
    m.input_tokens += record.InputTokens().value_or(0);
    m.cached_tokens += record.cached_tokens.value_or(0);
    m.output_tokens += record.OutputTokens();
    const std::string basis = record.OutputCountBasis();
    m.output_count_basis =
        m.output_count_basis.empty() || m.output_count_basis == basis ? basis : "mixed";
    const std::string itl_basis = BurstBasisName(record.burst_basis);
    m.itl_basis = m.itl_basis.empty() || m.itl_basis == itl_basis ? itl_basis : "mixed";
    if (const auto s = record.Ttft()) ttft.push_back(*s * kMsPerSecond);
    if (const auto s = record.Tpot()) tpot.push_back(*s * kMsPerSecond);
    if (const auto s = record.E2e()) e2e.push_back(*s * kMsPerSecond);
    const size_t first = itl.size();
    record.AppendItl(&itl);
    for (size_t i = first; i < itl.size(); ++i) itl[i] *= kMsPerSecond;
  }
  if (m.duration_s > 0) {
    m.requests_per_s = static_cast<double>(m.completed) / m.duration_s;
    m.output_tokens_per_s = static_cast<double>(m.output_tokens) / m.duration_s;
    m.total_tokens_per_s = static_cast<double>(m.input_tokens + m.output_tokens) / m.duration_s;
  }
  m.ttft_ms = Summarize(std::move(ttft));
  m.tpot_ms = Summarize(std::move(tpot));
  m.itl_ms = Summarize(std::move(itl));
  m.e2e_ms = Summarize(std::move(e2e));
  return m;
}

std::string FormatServeTable(const ServeMetrics& m, int32_t max_concurrency) {
  std::string out = Heading(" Serving Benchmark Result ", '=');
  out += Row("Successful requests:", std::to_string(m.completed));
  out += Row("Failed requests:", std::to_string(m.failed));
  out += Row("Maximum request concurrency:", std::to_string(max_concurrency));
  out += Row("Benchmark duration (s):", Fixed(m.duration_s));
  out += Row("Total input tokens:", std::to_string(m.input_tokens));
  out += Row("Cached input tokens:", std::to_string(m.cached_tokens));
  out += Row("Total generated tokens:", std::to_string(m.output_tokens));
  out += Row("Request throughput (req/s):", Fixed(m.requests_per_s));
  out += Row("Output token throughput (tok/s):", Fixed(m.output_tokens_per_s));
  out += Row("Total token throughput (tok/s):", Fixed(m.total_tokens_per_s));
  out += LatencyRows("Time to First Token", "TTFT", m.ttft_ms);
  out += LatencyRows("Time per Output Token (excl. 1st token)", "TPOT", m.tpot_ms);
  out += LatencyRows(
      m.itl_basis == "chunk" ? "Inter-token Latency (per stream event)" : "Inter-token Latency",
      "ITL", m.itl_ms);
  out += LatencyRows("End-to-end Latency", "E2EL", m.e2e_ms);
  if (m.spec && m.spec->drafts > 0) {
    out += Heading("Speculative Decoding", '-');
    out += Row("Acceptance rate (%):", Fixed(100 * m.spec->AcceptanceRate().value_or(0)));
    out += Row("Acceptance length:", Fixed(*m.spec->AcceptanceLength()));
    out += Row("Drafts:", fmt::format("{:.0f}", m.spec->drafts));
    out += Row("Draft tokens:", fmt::format("{:.0f}", m.spec->draft_tokens));
    out += Row("Accepted tokens:", fmt::format("{:.0f}", m.spec->accepted_tokens));
    out += "Per-position acceptance (%):\n";
    const std::vector<double> positions = m.spec->AcceptancePerPosition();
    for (size_t i = 0; i < positions.size(); ++i) {
      out += Row(fmt::format("  Position {}:", i), Fixed(100 * positions[i]));
    }
  }
  out += std::string(kColumns, '=') + "\n";
  for (const auto& [message, count] : m.errors)
    out += fmt::format("{} failed: {}\n", count, message);
  return out;
}

std::string FormatRunDetails(const RunResult& run) {
  std::string out;
  const auto pair = [](const Statistics& s) {
    return fmt::format("mean {:.2f} ms, P99 {:.2f} ms", s.mean, s.p99);
  };
  if (run.load.kind != "closed") {
    out += fmt::format("open loop ({}): {:.2f} requests a second due, {:.2f} sent\n", run.load.kind,
                       run.requested_rate, run.achieved_rate);
    for (const auto& [name, what] :
         {std::pair("ttft_sched_ms", "TTFT"), std::pair("e2e_sched_ms", "E2EL")}) {
      if (const Statistics* s = run.whole.Find(name)) {
        out += fmt::format("{} from when requests were due: {}\n", what, pair(*s));
      }
    }
  }
  if (run.steady) {
    out += fmt::format(
        "steady part: {:.1f} s of {:.1f} s, {:.2f} output tok/s, {:.1f} requests in flight\n",
        run.steady->duration_s, run.whole.duration_s, run.steady->output_tokens_per_s,
        run.steady->mean_in_flight);
  }
  if (run.goodput_per_s) {
    out += fmt::format("goodput: {:.2f} requests a second, {:.1f} % of all\n", *run.goodput_per_s,
                       run.goodput_pct.value_or(0));
  }
  if (run.client.wall_s > 0) {
    out += fmt::format(
        "client: {:.1f} % of a core, {:.2f} ms late at P99, kept from its core for {:.1f} %\n",
        100 * run.client.cpu_s / run.client.wall_s, run.client.lag_p99_ms,
        100 * run.client.withheld_s / run.client.wall_s);
  }
  std::vector<RunFinding> findings = run.findings;
  std::stable_sort(findings.begin(), findings.end(), [](const RunFinding& a, const RunFinding& b) {
    return a.severity < b.severity;
  });
  for (const RunFinding& finding : findings) {
    out += fmt::format("{}: {}: {}\n", FindingSeverityName(finding.severity), finding.id,
                       finding.message);
  }
  return out;
}

Json ServeResultJson(const LoadGeneratorOptions& options, const LoadResult& result,
                     const ServeMetrics& m, bool detailed, const RunResult* run) {
  Json json;
  json["date"] = UtcNow();
  json["base_url"] = options.base_url;
  json["endpoint"] = options.endpoint;
  json["model_id"] = result.model;
  json["num_prompts"] = result.records.size();
  json["request_rate"] =
      options.shape.request_rate ? Json(*options.shape.request_rate) : Json("inf");
  json["max_concurrency"] = options.max_concurrency;
  json["extra_body"] = options.extra_body;
  json["duration"] = m.duration_s;
  json["completed"] = m.completed;
  json["failed"] = m.failed;
  json["errors"] = m.errors;
  json["total_input_tokens"] = m.input_tokens;
  json["total_cached_tokens"] = m.cached_tokens;
  json["total_output_tokens"] = m.output_tokens;
  json["output_count_basis"] = m.output_count_basis;
  json["itl_basis"] = m.itl_basis;
  json["request_throughput"] = m.requests_per_s;
  json["output_throughput"] = m.output_tokens_per_s;
  json["total_token_throughput"] = m.total_tokens_per_s;
  AddStatistics("ttft", m.ttft_ms, &json);
  AddStatistics("tpot", m.tpot_ms, &json);
  AddStatistics("itl", m.itl_ms, &json);
  AddStatistics("e2el", m.e2e_ms, &json);
  if (m.spec) {
    json["spec_decode_acceptance_rate"] = OrNull(m.spec->AcceptanceRate());
    json["spec_decode_acceptance_length"] = OrNull(m.spec->AcceptanceLength());
    json["spec_decode_num_drafts"] = m.spec->drafts;
    json["spec_decode_draft_tokens"] = m.spec->draft_tokens;
    json["spec_decode_accepted_tokens"] = m.spec->accepted_tokens;
    json["spec_decode_per_position_acceptance_rates"] = m.spec->AcceptancePerPosition();
  }
  json["notes"] = result.notes;
  json["run"] = RunResultJson(run != nullptr ? *run : MakeRunResult(options, result));
  if (detailed) {
    Json requests = Json::array();
    const int64_t origin_ns = FirstSendNs(result.records);
    for (const RequestRecord& record : result.records) {
      requests.push_back(RequestRecordJson(record, origin_ns));
    }
    json["requests"] = std::move(requests);
  }
  return json;
}

}  // namespace firesteel
