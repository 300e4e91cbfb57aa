#include <fmt/format.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>

#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/progress_bar.h"
#include "cli/server_flags.h"
#include "cli/signal_watcher.h"
#include "server/server.h"

namespace firesteel {
namespace {

std::string Url(const std::string& host, int32_t port) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return is_ipv6 ? fmt::format("http://[{}]:{}", host, port)
                 : fmt::format("http://{}:{}", host, port);
}

Status Serve(const EngineOptions& engine_options, const ServerOptions& server_options) {
  std::atomic<bool> loaded = false;
  std::atomic<ApiServer*> listening = nullptr;
  auto signals = std::make_unique<SignalWatcher>([&](int count) {
    ApiServer* server = listening;
    if (count > 2 || server == nullptr || !loaded) {
      fmt::print(stderr, "\nfiresteel serve: interrupted{}\n", loaded ? "" : " while loading");
      std::_Exit(kExitFailed);
    }
    if (count == 1) {
      fmt::print(stderr, "finishing accepted requests; interrupt again to stop at once\n");
      server->Stop();
    } else {
      server->StopNow();
    }
  });

  FS_ASSIGN(const std::unique_ptr<ApiServer> server, ApiServer::Listen(server_options));
  listening = server.get();
  std::thread runner([&] { server->Run(); });
  ProgressBar bar = ProgressBar::ToStderr();
  Result<std::unique_ptr<Engine>> engine =
      Engine::Load(engine_options,
                   [&](const std::string& phase, double fraction) { bar.Update(phase, fraction); });
  bar.Finish();
  if (engine.ok()) {
    ServerBanner banner = BannerOf((*engine)->Summary(), Url(server_options.host, server->Port()));
    if (!server_options.served_model_names.empty())
      banner.model = server_options.served_model_names.front();
    server->SetEngine(*std::move(engine));
    loaded = true;
    fmt::print("{}", FormatBanner(banner));
    std::fflush(stdout);
  } else {
    server->StopNow();
  }
  runner.join();
  signals.reset();  // before the server that its handler stops
  return AsModelFault(engine.status());
}

}  // namespace

CommandSpec ServeCommandSpec() {
  CommandSpec command{
      .name = "serve",
      .summary = "Serve a model over HTTP with OpenAI's API; without MODEL, the bundled demo model",
      .positional = "MODEL",
      .positional_help = "directory of a Hugging Face checkpoint",
      .flags = ServerFlags()};
  const std::vector<FlagSpec> engine = EngineFlags(SpecMethods());
  command.flags.insert(command.flags.end(), engine.begin(), engine.end());
  return command;
}

int ServeCommand(const std::vector<std::string>& args) {
  const CommandSpec command = ServeCommandSpec();
  FlagValues values;
  if (const auto exit_code = BeginCommand(command, args, &values)) return *exit_code;
  const Result<ServerOptions> server_options = ReadServerFlags(values);
  if (!server_options.ok()) return FinishCommand(command, server_options.status());
  const Result<EngineOptions> engine_options = EngineOptionsFrom(values);
  if (!engine_options.ok()) return FinishCommand(command, engine_options.status());
  return FinishCommand(command, Serve(*engine_options, *server_options));
}

}  // namespace firesteel
