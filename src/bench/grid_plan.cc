#include "bench/grid_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace firesteel {
namespace {

bool Matches(const std::string& pattern, const std::string& name) {
  return pattern.empty() || pattern == name;
}

bool IsExcluded(const GridConfig& config, const std::string& configuration,
                const std::string& scenario, int32_t concurrency) {
  return std::any_of(
      config.exclusions.begin(), config.exclusions.end(), [&](const GridExclusion& e) {
        const bool level = e.concurrency.empty() ||
                           std::find(e.concurrency.begin(), e.concurrency.end(), concurrency) !=
                               e.concurrency.end();
        return level && Matches(e.configuration, configuration) && Matches(e.scenario, scenario);
      });
}

std::string PathOf(const std::string& scenario, const std::string& configuration,
                   int32_t concurrency, int32_t repeat) {
  return fmt::format("cells/{}{}{}-c{}-r{}.json", scenario, scenario.empty() ? "" : "/",
                     configuration, concurrency, repeat + 1);
}

std::string Joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += word + '\0';
  return out;
}

std::string SetupOf(const GridConfig& config, const GridConfiguration& configuration,
                    const std::string& binary) {
  if (!configuration.is_ours()) {
    return GridHash({"other", Joined(configuration.command), configuration.url, configuration.model,
                     configuration.spec_method});
  }
  return GridHash({"ours", binary, configuration.model.empty() ? config.model : configuration.model,
                   Joined(config.server_flags), Joined(configuration.flags)});
}

std::string WorkOf(const GridConfig& config, const GridScenario& scenario, const GridLevel& level,
                   const std::string& prompts) {
  return GridHash({prompts, std::to_string(level.concurrency), std::to_string(level.num_prompts),
                   std::to_string(scenario.max_tokens), DumpJson(scenario.request),
                   std::to_string(config.WarmupsAt(level)), config.cold_cache ? "cold" : ""});
}

// 0, 1, 2 … or, in reversed rounds, … 2, 1, 0.
std::vector<size_t> Order(size_t count, bool reversed) {
  std::vector<size_t> order(count);
  for (size_t i = 0; i < count; ++i) order[i] = reversed ? count - 1 - i : i;
  return order;
}

}  // namespace

std::string GridHash(std::initializer_list<std::string_view> texts) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto mix = [&hash](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (const std::string_view text : texts) {
    for (const char c : text) mix(static_cast<unsigned char>(c));
    for (uint64_t size = text.size(), i = 0; i < 8; ++i, size >>= 8)
      mix(static_cast<unsigned char>(size));
  }
  return fmt::format("{:016x}", hash);
}

std::vector<PlannedCell> PlanGrid(const GridConfig& config, const GridIdentity& identity) {
  std::vector<PlannedCell> plan;
  for (int32_t repeat = 0; repeat < config.repeats; ++repeat) {
    const bool reversed = repeat % 2 == 1;
    for (const size_t c : Order(config.configurations.size(), reversed)) {
      const GridConfiguration& configuration = config.configurations[c];
      const std::string setup = SetupOf(config, configuration, identity.binary);
      for (const size_t s : Order(config.scenarios.size(), reversed)) {
        const GridScenario& scenario = config.scenarios[s];
        for (const size_t l : Order(scenario.levels.size(), reversed)) {
          const GridLevel& level = scenario.levels[l];
          if (IsExcluded(config, configuration.name, scenario.name, level.concurrency)) continue;
          plan.push_back(
              {.configuration = c,
               .scenario = s,
               .level = l,
               .repeat = repeat,
               .path = PathOf(scenario.name, configuration.name, level.concurrency, repeat),
               .work = WorkOf(config, scenario, level, identity.scenario_work[s]),
               .setup = setup});
        }
      }
    }
  }
  return plan;
}

std::string FormatGridPlan(const GridConfig& config, const std::vector<PlannedCell>& plan,
                           const std::vector<size_t>& num_prompts, size_t done) {
  std::string out = fmt::format("{} cells: {} configurations, {} repeats", plan.size(),
                                config.configurations.size(), config.repeats);
  out += done > 0 ? fmt::format("; {} of them are measured already\n", done) : "\n";
  int64_t all = 0;
  for (size_t s = 0; s < config.scenarios.size(); ++s) {
    const GridScenario& scenario = config.scenarios[s];
    std::vector<int32_t> levels;
    for (const GridLevel& level : scenario.levels) levels.push_back(level.concurrency);
    int64_t requests = 0;
    for (const PlannedCell& cell : plan) {
      if (cell.scenario != s) continue;
      const int32_t count = scenario.levels[cell.level].num_prompts;
      requests += count > 0 ? count : static_cast<int64_t>(num_prompts[s]);
    }
    all += requests;
    const std::string work =
        scenario.is_random()
            ? fmt::format("random, {} to {} tokens in, {} to {} out",
                          std::max(1, static_cast<int>(scenario.random_range_ratio *
                                                       scenario.random_input_len)),
                          scenario.random_input_len,
                          std::max(1, static_cast<int>(scenario.random_range_ratio *
                                                       scenario.random_output_len)),
                          scenario.random_output_len)
            : fmt::format("{}, at most {} tokens out", scenario.prompts, scenario.max_tokens);
    out += fmt::format("  {}: {}, concurrency {}, {} requests\n",
                       scenario.name.empty() ? "prompts" : scenario.name, work,
                       fmt::join(levels, " "), requests);
  }
  return out + fmt::format("{} requests in all, warm-up not counted\n", all);
}

}  // namespace firesteel
