#include <fmt/format.h>

#include <algorithm>

#include "base/mapped_file.h"
#include "bench/dataset_internal.h"

namespace firesteel {
namespace {

constexpr size_t kMaxTraceBytes = size_t{1} << 30;
constexpr int64_t kMaxTokens = 1 << 24;

// One row {"timestamp": ms, "input_length", "output_length", "hash_ids"}, or a row of prompts with
// a timestamp.
struct TraceRow {
  double timestamp_ms = 0;
  int64_t input_length = 0;
  int64_t output_length = 0;
  std::vector<int64_t> hash_ids;
};

Result<TraceRow> ParseTraceRow(const Json& json, const std::string& where) {
  TraceRow row;
  FS_ASSIGN(const std::optional<double> timestamp, GetDouble(json, "timestamp", where));
  if (!timestamp) return InvalidArgument(fmt::format("{}: timestamp is missing", where));
  row.timestamp_ms = *timestamp;
  FS_ASSIGN(row.input_length, RequireInt(json, "input_length", 1, kMaxTokens, where));
  FS_ASSIGN(row.output_length, RequireInt(json, "output_length", 1, kMaxTokens, where));
  FS_ASSIGN(const auto ids, GetIntList(json, "hash_ids", where));
  if (ids) row.hash_ids = *ids;
  return row;
}

// The content of a block follows from its hash id alone, so that equal ids give equal prefixes.
std::vector<int32_t> BlockTokens(const TraceRow& row, size_t number, int32_t block_tokens,
                                 const std::vector<int32_t>& ordinary) {
  std::vector<int32_t> ids;
  for (size_t block = 0; static_cast<int64_t>(ids.size()) < row.input_length; ++block) {
    // Beyond the listed ids a block is the row's own.
    const uint64_t key = block < row.hash_ids.size()
                             ? static_cast<uint64_t>(row.hash_ids[block])
                             : (uint64_t{1} << 63) + number * 65'536 + block;
    RowRandom random(0, kTraceBlock, key);
    for (int32_t j = 0; j < block_tokens && static_cast<int64_t>(ids.size()) < row.input_length;
         ++j) {
      ids.push_back(ordinary[random.Below(static_cast<uint32_t>(ordinary.size()))]);
    }
  }
  return ids;
}

}  // namespace

Result<Dataset> MakeTrace(const DatasetOptions& options, const Tokenizer* tokenizer) {
  if (options.path.empty()) {
    return InvalidArgument("--dataset-path is missing, expected a trace: lines of JSON");
  }
  if (tokenizer == nullptr) {
    return InvalidArgument(fmt::format(
        "--dataset-name {} makes prompts of tokens, expected --tokenizer DIR (or a --model that is "
        "one)",
        options.name));
  }
  FS_ASSIGN(const std::string text, ReadFile(options.path, kMaxTraceBytes));
  const std::vector<int32_t> ordinary = OrdinaryIds(*tokenizer);
  if (ordinary.empty()) return InvalidArgument("the tokenizer has no ordinary token");
  Dataset dataset;
  std::string_view rest = text;
  size_t line_number = 0;
  while (!rest.empty()) {
    ++line_number;
    const size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}: line {}", options.path, line_number);
    FS_ASSIGN(const Json json, ParseJson(line, where));
    if (!json.is_object()) return InvalidArgument(fmt::format("{}: is not an object", where));
    FS_ASSIGN(const TraceRow row, ParseTraceRow(json, where));
    Prompt prompt;
    prompt.id = std::to_string(line_number);
    prompt.timestamp_ms = row.timestamp_ms * options.trace_slowdown;
    prompt.output_tokens = static_cast<int32_t>(row.output_length);
    prompt.token_ids = BlockTokens(row, line_number, options.trace_block_tokens, ordinary);
    prompt.prompt_tokens = static_cast<int32_t>(prompt.token_ids.size());
    dataset.prompts.push_back(std::move(prompt));
  }
  if (dataset.prompts.empty()) {
    return InvalidArgument(fmt::format("{}: holds no row", options.path));
  }
  std::stable_sort(
      dataset.prompts.begin(), dataset.prompts.end(),
      [](const Prompt& a, const Prompt& b) { return *a.timestamp_ms < *b.timestamp_ms; });
  if (options.num_prompts > 0 &&
      static_cast<size_t>(options.num_prompts) < dataset.prompts.size()) {
    dataset.prompts.resize(static_cast<size_t>(options.num_prompts));
  }
  dataset.synthetic_text = "noise";
  dataset.rule =
      fmt::format("{} rows of a trace, times x {:g}, blocks of {} tokens by hash id",
                  dataset.prompts.size(), options.trace_slowdown, options.trace_block_tokens);
  return dataset;
}

}  // namespace firesteel
