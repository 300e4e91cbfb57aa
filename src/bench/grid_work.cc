#include "bench/grid_work.h"

#include <fmt/format.h>

#include "bench/grid_plan.h"

namespace firesteel {

Result<GridWork> GridWork::Load(const GridConfig& config, const GridScenario& scenario) {
  if (scenario.is_random() || config.cold_cache) {
    return Unsupported(fmt::format("scenario {}: {} not supported by this build", scenario.name,
                                   scenario.is_random() ? "random prompts are" : "cache: cold is"));
  }
  GridWork work;
  FS_ASSIGN(work.prompts_, ReadPrompts(scenario.prompts));
  std::string all;
  for (const Prompt& prompt : work.prompts_)
    all += GridHash({prompt.id, prompt.text, std::to_string(prompt.output_tokens)});
  work.hash_ = GridHash({all});
  return work;
}

size_t GridWork::CountAt(const GridLevel& level) const {
  return level.num_prompts > 0 ? static_cast<size_t>(level.num_prompts) : prompts_.size();
}

std::vector<Prompt> GridWork::PromptsAt(const GridLevel& level) const {
  return SelectPrompts(prompts_, static_cast<int32_t>(CountAt(level)), std::nullopt);
}

}  // namespace firesteel
