#include "bench/grid_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/clock.h"
#include "base/mapped_file.h"
#include "net/http_client.h"

namespace firesteel {
namespace {

constexpr auto kWaitInterval = std::chrono::milliseconds(20);
constexpr auto kOtherWaitInterval = std::chrono::milliseconds(250);
constexpr int64_t kStopTimeoutMs = 20'000;
constexpr int64_t kOtherStopTimeoutMs = 60'000;
constexpr std::string_view kPort = "{port}";

// The last line that is not blank, "" when there is none.
std::string LastLine(const std::string& path) {
  const Result<std::string> text = ReadFile(path);
  if (!text.ok()) return "";
  const size_t end = text->find_last_not_of(" \n\r\t");
  if (end == std::string::npos) return "";
  const size_t begin = text->rfind('\n', end);
  return text->substr(begin == std::string::npos ? 0 : begin + 1,
                      end - (begin == std::string::npos ? 0 : begin + 1) + 1);
}

Result<HttpClient::Response> Get(const std::string& url, const std::string& api_key) {
  HttpCall call;
  call.url = url;
  call.timeout_ms = 5'000;
  if (!api_key.empty()) call.headers.emplace_back("Authorization", "Bearer " + api_key);
  return HttpClient::Fetch(std::move(call));
}

// One that nobody listens on now. Somebody else may take it before the server does; then the server
// says so and does not start.
Result<int> FreePort() {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const bool bound = listener >= 0 &&
                     bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
                     getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (listener >= 0) close(listener);
  if (!bound) return Unavailable("no free port was found on 127.0.0.1");
  return ntohs(address.sin_port);
}

bool HasPort(const std::string& text) { return text.find(kPort) != std::string::npos; }

std::string WithPort(std::string text, int port) {
  for (size_t at = text.find(kPort); at != std::string::npos; at = text.find(kPort))
    text.replace(at, kPort.size(), std::to_string(port));
  return text;
}

std::vector<std::string> OurCommand(const GridConfig& config,
                                    const GridConfiguration& configuration,
                                    const std::string& binary) {
  std::vector<std::string> argv = {binary, "serve"};
  const std::string& model = configuration.model.empty() ? config.model : configuration.model;
  if (!model.empty()) argv.push_back(model);
  argv.insert(argv.end(), {"--host", "127.0.0.1", "--port", "0"});
  argv.insert(argv.end(), config.server_flags.begin(), config.server_flags.end());
  argv.insert(argv.end(), configuration.flags.begin(), configuration.flags.end());
  return argv;
}

}  // namespace

std::vector<std::string> WithoutSecrets(std::vector<std::string> argv) {
  for (size_t i = 0; i < argv.size(); ++i) {
    const size_t equals = argv[i].find('=');
    const std::string name = argv[i].substr(0, equals);
    if (name != "--api-key" && name != "--admin-api-key" && name != "--hf-token") continue;
    if (equals != std::string::npos)
      argv[i] = name + "=***";
    else if (i + 1 < argv.size())
      argv[i + 1] = "***";
  }
  return argv;
}

bool GridServer::IsHealthy() const {
  const auto response = Get(banner_.url + health_, api_key_);
  return response.ok() && response->status == 200;
}

void GridServer::Describe(const std::vector<std::string>& argv) {
  if (!argv.empty()) description_["command"] = WithoutSecrets(argv);
  // vLLM and we say our version at one place, SGLang at another, others nowhere.
  for (const char* path : {"/version", "/server_info", "/get_server_info"}) {
    const auto response = Get(banner_.url + path, api_key_);
    if (!response.ok() || response->status != 200) continue;
    const Result<Json> answer = ParseJson(response->body, path);
    if (!answer.ok() || !answer->is_object()) continue;
    const bool is_version = std::string_view(path) == "/version";
    if (is_version && answer->contains("version")) description_["version"] = (*answer)["version"];
    if (!is_version) description_["server_info"] = *answer;
    return;
  }
}

Result<GridServer> GridServer::Start(const GridConfig& config,
                                     const GridConfiguration& configuration,
                                     const std::string& binary, const std::string& log_stem,
                                     const std::atomic<bool>* stop) {
  const bool ours = configuration.is_ours();
  GridServer server;
  server.health_ = configuration.health;
  server.stop_timeout_ms_ = ours ? kStopTimeoutMs : kOtherStopTimeoutMs;
  std::vector<std::string> argv =
      ours ? OurCommand(config, configuration, binary) : configuration.command;
  if (!ours) {
    server.banner_.model = configuration.model;
    server.banner_.url = configuration.url;
    server.banner_.spec_method = configuration.spec_method;
    server.banner_.spec_tokens = configuration.spec_tokens.value_or(0);
    bool needs_port = HasPort(configuration.url);
    for (const std::string& word : argv) needs_port |= HasPort(word);
    if (needs_port) {
      FS_ASSIGN(const int port, FreePort());
      server.banner_.url = WithPort(server.banner_.url, port);
      for (std::string& word : argv) word = WithPort(word, port);
    }
    if (const char* key = configuration.api_key_env.empty()
                              ? nullptr
                              : std::getenv(configuration.api_key_env.c_str())) {
      server.api_key_ = key;
    }
  }
  const std::string out = log_stem + ".stdout";
  const std::string err = log_stem + ".stderr";
  if (!argv.empty()) {
    FS_ASSIGN(server.process_, ChildProcess::Start(argv, out, err));
  }

  const int64_t deadline_ns = Clock::Real().NowNs() + config.start_timeout_s * 1'000'000'000;
  for (;;) {
    if (stop != nullptr && *stop) return Cancelled("the grid was interrupted");
    if (server.process_) {
      if (const auto end = server.process_->Ended()) {
        return Internal(fmt::format("the server of {} ended with {} while starting: {}",
                                    configuration.name, *end, LastLine(err)));
      }
    }
    if (ours) {
      // The port is the server's choice, which its banner tells.
      FS_ASSIGN(const std::string text, ReadFile(out));
      if (const auto banner = ParseBanner(text)) server.banner_ = *banner;
    }
    if (!server.banner_.url.empty() && server.IsHealthy()) break;
    if (Clock::Real().NowNs() > deadline_ns) {
      return Unavailable(fmt::format(
          "the server of {} was not ready after {} s{}", configuration.name, config.start_timeout_s,
          argv.empty() ? fmt::format(" at {}{}", server.banner_.url, server.health_)
                       : fmt::format(", see {}", err)));
    }
    std::this_thread::sleep_for(ours ? kWaitInterval : kOtherWaitInterval);
  }
  server.Describe(argv);
  return server;
}

Status GridServer::Stop() {
  if (!process_) return {};
  const Status ended = process_->Terminate(stop_timeout_ms_);
  // Other servers end as they like: by the signal, or with an exit code of their own.
  return stop_timeout_ms_ == kStopTimeoutMs ? ended : Status();
}

}  // namespace firesteel
