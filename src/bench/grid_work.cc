#include "bench/grid_work.h"

#include <fmt/format.h>

#include "bench/grid_plan.h"

namespace firesteel {

Result<GridWork> GridWork::Load(const GridConfig& config, const GridScenario& scenario) {
  GridWork work;
  if (!scenario.is_random()) {
    FS_ASSIGN(work.prompts_, ReadPrompts(scenario.prompts));
    std::string all;
    for (const Prompt& prompt : work.prompts_)
      all += GridHash({prompt.id, prompt.text, std::to_string(prompt.output_tokens)});
    work.hash_ = GridHash({all});
    return work;
  }
  const std::string& folder = config.tokenizer.empty() ? config.model : config.tokenizer;
  if (folder.empty()) {
    return InvalidArgument(fmt::format(
        "scenario {}: random prompts need a tokenizer, expected tokenizer or --tokenizer DIR",
        scenario.name));
  }
  FS_ASSIGN(std::unique_ptr<Tokenizer> tokenizer, Tokenizer::Load(folder));
  work.tokenizer_ = std::move(tokenizer);
  work.random_.name = "random-ids";  // needs no text of others
  work.random_.dialect = Dialect::kSglang;
  // Their text would be read as more tokens or fewer.
  work.random_.send_ids = true;
  work.random_.seed = config.seed;
  work.random_.input_len = scenario.random_input_len;
  work.random_.output_len = scenario.random_output_len;
  work.random_.range_ratio = scenario.random_range_ratio;
  work.hash_ = GridHash(
      {"random", folder, std::to_string(config.seed), std::to_string(scenario.random_input_len),
       std::to_string(scenario.random_output_len), std::to_string(scenario.random_range_ratio)});
  return work;
}

Result<Dataset> GridWork::PromptsAt(const GridLevel& level) const {
  if (tokenizer_ != nullptr) {
    DatasetOptions options = random_;
    options.num_prompts = level.num_prompts;
    return MakeDataset(options, tokenizer_.get());
  }
  Dataset dataset;
  const size_t count =
      level.num_prompts > 0 ? static_cast<size_t>(level.num_prompts) : prompts_.size();
  dataset.prompts = SelectPrompts(prompts_, static_cast<int32_t>(count), std::nullopt);
  dataset.rule = "rows of a file, in its order";
  return dataset;
}

}  // namespace firesteel
