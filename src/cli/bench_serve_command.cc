#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "base/mapped_file.h"
#include "bench/dataset.h"
#include "bench/load_generator.h"
#include "bench/result_export.h"
#include "bench/run_validity.h"
#include "bench/serve_report.h"
#include "cli/bench_serve_flags.h"
#include "cli/commands.h"
#include "cli/progress_bar.h"
#include "cli/signal_watcher.h"

namespace firesteel {
namespace {

constexpr size_t kMaxResultBytes = size_t{4} << 30;

// The model's tokenizer, null where none is at hand. A name that is no directory is only noted:
// the launch lines of other tools name models of a hub.
Result<std::unique_ptr<Tokenizer>> LoadTokenizer(const BenchServeOptions& options) {
  if (options.tokenizer.empty()) return std::unique_ptr<Tokenizer>();
  if (!std::filesystem::is_directory(options.tokenizer)) {
    PrintNotes({fmt::format("--tokenizer {} is no directory: tokens are counted by the server",
                            options.tokenizer)});
    return std::unique_ptr<Tokenizer>();
  }
  auto tokenizer = Tokenizer::Load(options.tokenizer);
  if (!tokenizer.ok()) return AsModelFault(tokenizer.status());
  return tokenizer;
}

// Rows of messages need an API that takes them.
Status CheckApi(ApiKind api, const std::vector<Prompt>& prompts) {
  if (api == ApiKind::kChat) {
    for (const Prompt& prompt : prompts) {
      if (!prompt.token_ids.empty()) {
        return InvalidArgument(fmt::format(
            "prompt {} is token ids, which chats do not take: use --endpoint /v1/completions",
            prompt.id));
      }
    }
    return {};
  }
  for (const Prompt& prompt : prompts) {
    if (prompt.text.empty() && !prompt.messages.is_null()) {
      return InvalidArgument(fmt::format(
          "prompt {} is a list of messages: use --endpoint /v1/chat/completions", prompt.id));
    }
  }
  return {};
}

// How many tokens the server will count, where the prompt is sent as it is.
void CountPrompts(const Tokenizer* tokenizer, ApiKind api, std::vector<Prompt>* prompts) {
  if (tokenizer == nullptr || api == ApiKind::kChat) return;
  for (Prompt& prompt : *prompts) {
    if (prompt.prompt_tokens) continue;
    prompt.prompt_tokens = static_cast<int32_t>(tokenizer->Encode(prompt.text, true).size());
  }
}

std::string LiveDetail(const LiveFigures& live) {
  std::string detail = fmt::format("{} of {} requests", live.finished, live.total);
  if (live.failed > 0) detail += fmt::format(", {} failed", live.failed);
  detail += fmt::format(", {} in flight", live.in_flight);
  if (live.output_tokens_per_s > 0)
    detail += fmt::format(", {:.0f} tok/s", live.output_tokens_per_s);
  if (live.mean_ttft_s > 0) detail += fmt::format(", TTFT {:.0f} ms", live.mean_ttft_s * 1000);
  return detail;
}

// Adds to a file, or makes it: by writing it anew, so that no reader sees half of it.
Status AppendTo(const std::string& path, const std::string& separator, const std::string& text) {
  std::string content;
  if (std::filesystem::exists(path)) {
    FS_ASSIGN(content, ReadFile(path, kMaxResultBytes));
    if (!content.empty()) content += separator;
  }
  FS_TRY(WriteFileAtomically(path, content + text));
  fmt::print("wrote {}\n", path);
  return {};
}

Status WriteResults(const BenchServeOptions& options, const LoadGeneratorOptions& load,
                    const LoadResult& result, const ServeMetrics& metrics, const RunResult& run) {
  if (!options.result_json.empty()) {
    const Json json = ServeResultJson(load, result, metrics, options.exports.detailed, &run);
    FS_TRY(WriteFileAtomically(options.result_json, DumpJson(json, 2) + "\n"));
    fmt::print("wrote {}\n", options.result_json);
  }
  if (options.save_vllm) {
    const std::string name =
        options.vllm_file.empty() ? VllmFileName(options.exports, run) : options.vllm_file;
    const std::string path = options.vllm_dir.empty() ? name : options.vllm_dir + "/" + name;
    const std::string text = DumpJson(VllmResult(options.exports, result, run));
    if (options.append_vllm) {
      FS_TRY(AppendTo(path, "\n", text));
    } else {
      FS_TRY(WriteFileAtomically(path, text));
      fmt::print("wrote {}\n", path);
    }
  }
  if (!options.sglang_file.empty()) {
    FS_TRY(AppendTo(options.sglang_file, "", SglangLine(options.exports, result, run)));
  }
  return {};
}

Status Run(const FlagValues& values) {
  FS_ASSIGN(const BenchServeOptions options, ReadBenchServeFlags(values));
  FS_ASSIGN(const std::unique_ptr<Tokenizer> tokenizer, LoadTokenizer(options));
  FS_ASSIGN(Dataset dataset, MakeDataset(options.dataset, tokenizer.get()));
  LoadGeneratorOptions load = options.load;
  FS_TRY(CheckApi(ApiKindOfPath(load.endpoint), dataset.prompts));
  CountPrompts(tokenizer.get(), ApiKindOfPath(load.endpoint), &dataset.prompts);
  const auto count = static_cast<int32_t>(dataset.prompts.size());
  if (load.max_concurrency == 0 && load.shape.kind == "closed") load.max_concurrency = count;
  if (load.shape.kind == "closed" && load.max_concurrency > count) {
    PrintNotes({fmt::format("--max-concurrency is {} for {} requests: at most {} are in flight",
                            load.max_concurrency, count, count)});
  }
  load.tokenizer = tokenizer.get();
  load.warmup_prompts = std::move(dataset.warmups);
  load.keep_when_stopped = true;
  load.workload = {
      .dataset = options.dataset.name,
      .rule = dataset.rule,
      .fingerprint = WorkloadFingerprint(dataset.prompts, {.api = ApiKindOfPath(load.endpoint),
                                                           .dialect = load.dialect,
                                                           .model = {},
                                                           .output_len = load.output_len,
                                                           .ignore_eos = load.ignore_eos,
                                                           .extra = load.extra_body}),
      .seed = dataset.seed,
      .synthetic_text = dataset.synthetic_text,
      .ignore_eos = load.ignore_eos};
  PrintNotes({"prompts: " + dataset.rule});

  std::atomic<bool> stop = false;
  SignalWatcher signals([&](int times) {
    if (times > 1) std::_Exit(kExitFailed);
    stop = true;
  });
  ProgressBar bar = ProgressBar::ToStderr();
  if (options.progress) {
    load.live = [&](const LiveFigures& live) {
      bar.Update(
          "measuring",
          static_cast<double>(live.finished) / static_cast<double>(std::max<size_t>(live.total, 1)),
          LiveDetail(live));
    };
  }
  FS_ASSIGN(const LoadResult result, RunLoad(load, dataset.prompts, nullptr, &stop));
  bar.Finish();
  PrintNotes(result.notes);
  const ServeMetrics metrics = ComputeServeMetrics(result);
  const RunResult run = MakeRunResult(load, result);
  fmt::print("{}{}", FormatServeTable(metrics, load.max_concurrency), FormatRunDetails(run));
  FS_TRY(WriteResults(options, load, result, metrics, run));
  if (metrics.completed == 0)
    return Unavailable(fmt::format("all {} requests failed", metrics.failed));
  if (const std::vector<std::string> reasons = run.VoidReasons(); !reasons.empty()) {
    return Unavailable("the run is void: " + reasons.front());
  }
  if (result.interrupted) return Cancelled("the benchmark was interrupted");
  return {};
}

}  // namespace

CommandSpec BenchServeCommandSpec() {
  return {.name = "bench serve",
          .summary =
              "Measure any server that speaks OpenAI's API or SGLang's: streamed requests, a "
              "fixed number in flight or at a rate. The exit status is 1 when the run is void",
          .positional = "",
          .positional_help = "",
          .flags = BenchServeFlags()};
}

int BenchServeCommand(const std::vector<std::string>& args) {
  const CommandSpec command = BenchServeCommandSpec();
  FlagValues values;
  if (const auto exit_code = BeginCommand(command, args, &values)) return *exit_code;
  return FinishCommand(command, Run(values));
}

}  // namespace firesteel
