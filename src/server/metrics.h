// What /metrics shows: vLLM's names, so that existing dashboards work, and ours for speculation.
// Counters come from the engine; latencies are measured here. Io thread only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "firesteel/engine.h"

namespace firesteel {

class Histogram {
 public:
  // `bounds` ascend; an implicit last bucket takes what is above.
  explicit Histogram(std::span<const double> bounds);
  void Observe(double value);

  const std::vector<double>& bounds() const { return bounds_; }
  const std::vector<uint64_t>& counts() const { return counts_; }  // [bounds + 1], not cumulative
  double sum() const { return sum_; }

 private:
  std::vector<double> bounds_;
  std::vector<uint64_t> counts_;
  double sum_ = 0;
};

class ServerMetrics {
 public:
  ServerMetrics();

  // Prometheus' text format 0.0.4.
  std::string Render(const EngineStats& stats, const ModelSummary& summary,
                     const std::string& model_name, const std::string& verify_rule) const;

  Histogram time_to_first_token;    // from the request's arrival
  Histogram inter_token;            // between two events of a request that bring tokens
  Histogram e2e;                    // to the terminal event
  Histogram time_per_output_token;  // of a request: (end - first token) / (tokens - 1)
  Histogram prompt_tokens;          // of a request that ended; cached ones count
  Histogram generation_tokens;      // of a request that ended
};

}  // namespace firesteel
