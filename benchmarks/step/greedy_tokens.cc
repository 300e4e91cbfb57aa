// Our side of oracle.mjs: greedy tokens of the first prompts of a file, one JSON line each.
//
//   greedy_tokens MODEL PROMPTS.jsonl COUNT LENGTH
//
// {"prompt": text, "prompt_tokens": ids, "tokens": ids, "gaps": how far the logit of each is above
// the second's}. Weights are float32 where the checkpoint is (or widened to it), and so is the KV
// cache: what differs from another engine is the order of additions alone.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <future>
#include <string>
#include <vector>

#include "base/json.h"
#include "firesteel/engine.h"
#include "text/tokenizer.h"

namespace firesteel {
namespace {

struct Output {
  std::vector<int32_t> tokens;
  std::vector<double> gaps;
  Status error;
};

Result<Output> Complete(Engine& engine, const std::vector<int32_t>& prompt, int32_t length) {
  Request request;
  request.prompt = prompt;
  request.sampling.temperature = 0;
  request.sampling.max_tokens = length;
  request.sampling.ignore_eos = true;
  request.sampling.logprobs = 2;
  Output output;
  std::promise<void> done;
  FS_TRY(engine
             .Submit(std::move(request),
                     [&](TokenEvent event) {
                       for (const TokenLogprob& logprob : event.logprobs) {
                         output.tokens.push_back(logprob.token);
                         output.gaps.push_back(logprob.top[0].second - logprob.top[1].second);
                       }
                       if (!event.finish) return;
                       output.error = event.error;
                       done.set_value();
                     })
             .status());
  done.get_future().wait();
  if (!output.error.ok()) return output.error;
  return output;
}

Status Run(const std::string& model, const std::string& prompts, int count, int32_t length) {
  EngineOptions options;
  options.model = model;
  options.weight_dtype = "float32";
  options.kv_cache_dtype = "float32";
  options.max_num_seqs = 1;
  options.warmup = false;
  FS_ASSIGN(const std::unique_ptr<Engine> engine, Engine::Load(options));
  std::ifstream file(prompts);
  std::string line;
  for (int i = 0; i < count && std::getline(file, line); ++i) {
    FS_ASSIGN(const Json entry, ParseJson(line, prompts));
    FS_ASSIGN(const std::optional<std::string> text, GetString(entry, "prompt", prompts));
    if (!text) return DataCorrupt(fmt::format("{}: line {} has no prompt", prompts, i + 1));
    const std::vector<int32_t> prompt = engine->tokenizer().Encode(*text, false);
    FS_ASSIGN(const Output output, Complete(*engine, prompt, length));
    fmt::print("{}\n", DumpJson({{"prompt", *text},
                                 {"prompt_tokens", prompt},
                                 {"tokens", output.tokens},
                                 {"gaps", output.gaps}}));
    std::fflush(stdout);
  }
  return {};
}

}  // namespace
}  // namespace firesteel

int main(int argc, char** argv) {
  if (argc != 5) {
    fmt::print(stderr, "usage: greedy_tokens MODEL PROMPTS.jsonl COUNT LENGTH\n");
    return 2;
  }
  const firesteel::Status status =
      firesteel::Run(argv[1], argv[2], std::atoi(argv[3]), std::atoi(argv[4]));
  if (status.ok()) return 0;
  fmt::print(stderr, "greedy_tokens: {}\n", status.message());
  return 1;
}
