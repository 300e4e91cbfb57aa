// Which cells a grid has and in which order they run. Functions without state.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "bench/grid_config.h"

namespace firesteel {

// One run to be measured. Indices are into the grid's lists.
struct PlannedCell {
  size_t configuration = 0;
  size_t scenario = 0;
  size_t level = 0;
  int32_t repeat = 0;  // from 0
  std::string path;    // of its result, within the output directory
  // Equal for equal work: prompts, lengths, requests, concurrency. The same for all configurations.
  std::string work;
  std::string setup;  // equal for equal servers: program, flags
};

// What the plan cannot know from the file alone.
struct GridIdentity {
  std::string binary;                      // of this program: changes when it is built anew
  std::vector<std::string> scenario_work;  // hash of each scenario's prompts
};

// Repeats one after another; within a repeat configuration by configuration, since each has its
// server; the order of configurations, scenarios and levels is reversed in every second repeat, so
// that what drifts with time falls on all alike.
std::vector<PlannedCell> PlanGrid(const GridConfig& config, const GridIdentity& identity);

// 16 hexadecimal digits over texts and where they end. To tell accidents apart, not attacks.
std::string GridHash(std::initializer_list<std::string_view> texts);

// Cells, requests and output tokens, one line for each scenario. `done`: how many cells a former
// start of the grid has measured already.
std::string FormatGridPlan(const GridConfig& config, const std::vector<PlannedCell>& plan,
                           const std::vector<size_t>& num_prompts, size_t done);

}  // namespace firesteel
