// The numbers that rules compare with, in one table: name, default, meaning. A report lists those
// that were changed.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "firesteel/status.h"

namespace firesteel {

struct Thresholds {
  double inversion_ratio = 1.25;  // TTFT at a level over TTFT at the next one
  double cold_ttft_share = 0.5;   // of E2E: waiting for the first token dominates
  double jitter_ratio = 4;        // P99 over mean TTFT
  double jitter_severe_ratio = 8;
  double tail_moderate = 1.5;  // P99 over mean E2E, in units of what lengths explain
  double tail_heavy = 2;
  double length_spread =
      1.98;                  // P99 over mean of lengths uniform from 1, where lengths are unknown
  double cliff_drop = 0.25;  // of throughput from a level to the next
  double dip_drop = 0.10;
  double recovery_share = 0.95;  // of the throughput before a drop
  double saturation_elasticity = 0.3;
  double superlinear_elasticity = 1.10;
  double tpot_elasticity = 0.5;
  double chunked_itl_ratio = 1.15;  // ITL over TPOT
  double p99_min_requests = 100;
  double unequal_work = 0.01;      // of output tokens per request
  double refuse_work = 0.05;       // above: configurations are not ranked
  double unequal_count = 0.20;     // of the number of prompts
  double levels_work = 0.05;       // of mean lengths between levels of a scenario
  double early_eos_share = 0.98;   // of the requested output
  double replicate_noise = 0.05;   // between runs of equal work and configuration
  double health_drop = 0.20;       // of a competitor below its own earlier figure
  double length_tolerance = 0.03;  // of the best throughput, for the choice of spec tokens
  double step_jump = 0.30;         // of the step time for one increment of spec tokens
  double step_jump_factor = 3;     // over the growth between other neighbours
  double model_mismatch = 0.10;    // expected over measured speedup
  double min_effect = 0.01;        // smaller differences are ties whatever their noise
  double failure_share = 0.01;     // of N: the run is void
  double in_flight_excess = 0.03;  // request rate × mean E2E over the concurrency
};

struct ThresholdInfo {
  const char* name;
  double Thresholds::*value;
};

const std::vector<ThresholdInfo>& AllThresholds();

// "cliff_drop=0.3". kInvalidArgument names the nearest threshold.
Status SetThreshold(const std::string& assignment, Thresholds* thresholds);

// Name, value and default of those that differ.
struct ThresholdOverride {
  std::string name;
  double value = 0;
  double standard = 0;
};
std::vector<ThresholdOverride> Overrides(const Thresholds& thresholds);

}  // namespace firesteel
