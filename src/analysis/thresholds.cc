#include "analysis/thresholds.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/option_map.h"

namespace firesteel {

const std::vector<ThresholdInfo>& AllThresholds() {
  using T = Thresholds;
  static const std::vector<ThresholdInfo> all = {
      {"inversion_ratio", &T::inversion_ratio},
      {"cold_ttft_share", &T::cold_ttft_share},
      {"jitter_ratio", &T::jitter_ratio},
      {"jitter_severe_ratio", &T::jitter_severe_ratio},
      {"tail_moderate", &T::tail_moderate},
      {"tail_heavy", &T::tail_heavy},
      {"length_spread", &T::length_spread},
      {"cliff_drop", &T::cliff_drop},
      {"dip_drop", &T::dip_drop},
      {"recovery_share", &T::recovery_share},
      {"saturation_elasticity", &T::saturation_elasticity},
      {"superlinear_elasticity", &T::superlinear_elasticity},
      {"tpot_elasticity", &T::tpot_elasticity},
      {"chunked_itl_ratio", &T::chunked_itl_ratio},
      {"p99_min_requests", &T::p99_min_requests},
      {"unequal_work", &T::unequal_work},
      {"refuse_work", &T::refuse_work},
      {"unequal_count", &T::unequal_count},
      {"levels_work", &T::levels_work},
      {"early_eos_share", &T::early_eos_share},
      {"replicate_noise", &T::replicate_noise},
      {"health_drop", &T::health_drop},
      {"length_tolerance", &T::length_tolerance},
      {"step_jump", &T::step_jump},
      {"step_jump_factor", &T::step_jump_factor},
      {"model_mismatch", &T::model_mismatch},
      {"min_effect", &T::min_effect},
      {"failure_share", &T::failure_share},
      {"in_flight_excess", &T::in_flight_excess},
  };
  return all;
}

Status SetThreshold(const std::string& assignment, Thresholds* thresholds) {
  const size_t equals = assignment.find('=');
  const std::string name = assignment.substr(0, equals);
  const std::string text = equals == std::string::npos ? "" : assignment.substr(equals + 1);
  double value = 0;
  const auto r = std::from_chars(text.data(), text.data() + text.size(), value);
  if (r.ec != std::errc() || r.ptr != text.data() + text.size() || !std::isfinite(value) ||
      value < 0) {
    return InvalidArgument(
        fmt::format("--threshold is {}, expected NAME=NUMBER with a number from 0", assignment));
  }
  std::vector<std::string> names;
  for (const ThresholdInfo& info : AllThresholds()) {
    names.emplace_back(info.name);
    if (name != info.name) continue;
    thresholds->*info.value = value;
    return {};
  }
  const std::string nearest = NearestName(name, names);
  return InvalidArgument(
      fmt::format("--threshold: there is no threshold {}{}", name,
                  nearest.empty() ? "" : fmt::format(", did you mean {}?", nearest)));
}

std::vector<ThresholdOverride> Overrides(const Thresholds& thresholds) {
  std::vector<ThresholdOverride> changed;
  const Thresholds standard;
  for (const ThresholdInfo& info : AllThresholds()) {
    if (thresholds.*info.value == standard.*info.value) continue;
    changed.push_back({info.name, thresholds.*info.value, standard.*info.value});
  }
  return changed;
}

}  // namespace firesteel
