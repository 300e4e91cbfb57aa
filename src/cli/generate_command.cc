#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <memory>

#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/generation.h"
#include "cli/progress_bar.h"
#include "cli/sampling_flags.h"
#include "cli/signal_watcher.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace firesteel {
namespace {

// What Ctrl-C means now: it ends a running answer, and the program where none runs.
struct Interrupts {
  std::atomic<bool> loaded = false;
  std::atomic<bool> generating = false;
  std::atomic<bool> cancel = false;

  void OnSignal() {
    if (!loaded) {
      fmt::print(stderr, "\nfiresteel generate: interrupted while loading\n");
      std::_Exit(kExitFailed);
    }
    if (!generating || cancel.exchange(true)) {
      fmt::print(stderr, "\n");
      std::_Exit(generating ? kExitFailed : kExitOk);
    }
  }
};

void PrintText(std::string_view text) {
  fmt::print("{}", text);
  std::fflush(stdout);
}

Result<Generation> Answer(Engine& engine, std::vector<int32_t> prompt,
                          const SamplingParams& sampling, Interrupts* interrupts) {
  interrupts->cancel = false;
  interrupts->generating = true;
  Result<Generation> generation = Generate(
      engine, {.prompt = std::move(prompt), .sampling = sampling}, PrintText, &interrupts->cancel);
  interrupts->generating = false;
  fmt::print("\n");
  std::fflush(stdout);
  if (generation.ok()) fmt::print(stderr, "{}\n", FormatGeneration(*generation, engine.Summary()));
  return generation;
}

Status GenerateOnce(Engine& engine, const std::string& prompt, const SamplingParams& sampling,
                    Interrupts* interrupts) {
  const std::vector<int32_t> ids = engine.tokenizer().Encode(prompt, /*add_special_tokens=*/true);
  if (ids.empty()) return InvalidArgument("the prompt is empty");
  return Answer(engine, ids, sampling, interrupts).status();
}

// One conversation: lines from stdin are the user's turns, until its end.
Status Chat(Engine& engine, const std::string& first_turn, const SamplingParams& sampling,
            Interrupts* interrupts) {
  const Tokenizer& tokenizer = engine.tokenizer();
  if (tokenizer.chat_template().empty()) {
    return InvalidArgument(
        fmt::format("{} has no chat template, so --chat cannot be used", engine.options().model));
  }
  FS_ASSIGN(const std::unique_ptr<ChatTemplate> chat_template,
            ChatTemplate::Compile(tokenizer.chat_template(), tokenizer.bos_token(),
                                  tokenizer.eos_token()));
  Json messages = Json::array();
  std::string turn = first_turn;
  const bool is_terminal = isatty(STDIN_FILENO) != 0;
  for (;;) {
    if (turn.empty()) {
      if (is_terminal) fmt::print(stderr, "> ");
      if (!std::getline(std::cin, turn)) return {};
      if (turn.empty()) continue;
    }
    messages.push_back(Json{{"role", "user"}, {"content", turn}});
    turn.clear();
    FS_ASSIGN(const std::string prompt,
              chat_template->Render(messages, Json(), /*add_generation_prompt=*/true, Json()));
    FS_ASSIGN(const Generation generation,
              Answer(engine, tokenizer.Encode(prompt, /*add_special_tokens=*/false), sampling,
                     interrupts));
    messages.push_back(Json{{"role", "assistant"}, {"content", generation.text}});
  }
}

Status Run(const FlagValues& values) {
  FS_ASSIGN(const SamplingParams sampling, ReadSamplingFlags(values));
  FS_ASSIGN(const EngineOptions options, EngineOptionsFrom(values));
  bool chat = false;
  FS_TRY(values.ReadSwitch("--chat", &chat));
  std::string prompt = values.Text("--prompt");
  if (!chat && !values.Has("--prompt")) {
    if (isatty(STDIN_FILENO) != 0)
      return InvalidArgument("no prompt, expected -p TEXT, text on stdin, or --chat");
    prompt.assign(std::istreambuf_iterator<char>(std::cin), {});
  }

  Interrupts interrupts;
  SignalWatcher signals([&](int) { interrupts.OnSignal(); });
  ProgressBar bar = ProgressBar::ToStderr();
  Result<std::unique_ptr<Engine>> loaded = Engine::Load(
      options, [&](const std::string& phase, double fraction) { bar.Update(phase, fraction); });
  bar.Finish();
  if (!loaded.ok()) return AsModelFault(loaded.status());
  const std::unique_ptr<Engine> engine = *std::move(loaded);
  interrupts.loaded = true;
  if (engine->Summary().ballast_bytes > 0 || engine->options().speculation.ballast_layers > 0) {
    fmt::print(stderr, "with ballast: {}\n", FormatCost(BannerOf(engine->Summary(), "")));
  }
  return chat ? Chat(*engine, prompt, sampling, &interrupts)
              : GenerateOnce(*engine, prompt, sampling, &interrupts);
}

}  // namespace

CommandSpec GenerateCommandSpec() {
  CommandSpec command{
      .name = "generate",
      .summary =
          "Stream the continuation of one prompt to the terminal; without MODEL, the bundled demo "
          "model",
      .positional = "MODEL",
      .positional_help = "directory of a Hugging Face checkpoint",
      .flags = {{"--prompt", FlagKind::kValue, "TEXT", "stdin", "text to go on from", {"-p"}},
                {"--chat",
                 FlagKind::kSwitch,
                 "",
                 "off",
                 "keep a conversation, with the model's chat template",
                 {}}}};
  // --seed is the request's here, and sampling has its own defaults.
  std::vector<FlagSpec> engine = EngineFlags(SpecMethods());
  std::erase_if(engine, [](const FlagSpec& flag) {
    return flag.name == "--seed" || flag.name == "--generation-config";
  });
  for (const auto& more : {SamplingFlags(), engine})
    command.flags.insert(command.flags.end(), more.begin(), more.end());
  return command;
}

int GenerateCommand(const std::vector<std::string>& args) {
  const CommandSpec command = GenerateCommandSpec();
  FlagValues values;
  if (const auto exit_code = BeginCommand(command, args, &values)) return *exit_code;
  return FinishCommand(command, Run(values));
}

}  // namespace firesteel
