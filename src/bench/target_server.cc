#include "bench/target_server.h"

#include <fmt/format.h>

#include <chrono>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "bench/completion_stream.h"
#include "bench/prometheus_text.h"
#include "net/http_client.h"

namespace firesteel {
namespace {

constexpr int64_t kTimeoutMs = 30'000;
constexpr auto kRetryInterval = std::chrono::milliseconds(200);

HttpCall CallTo(const TargetServer& server, const char* method, const char* path) {
  HttpCall call;
  call.method = method;
  call.url = server.base_url + path;
  call.timeout_ms = kTimeoutMs;
  if (!server.api_key.empty()) {
    call.headers.emplace_back("Authorization", "Bearer " + server.api_key);
  }
  return call;
}

}  // namespace

Result<std::string> FirstServedModel(const TargetServer& server) {
  HttpCall call = CallTo(server, "GET", "/v1/models");
  const std::string where = call.url;
  FS_ASSIGN(const HttpClient::Response response, HttpClient::Fetch(std::move(call)));
  if (response.status == 404) {
    FS_ASSIGN(const HttpClient::Response info,
              HttpClient::Fetch(CallTo(server, "GET", "/get_model_info")));
    const auto json = ParseJson(info.body, where);
    if (info.status == 200 && json.ok() && json->is_object()) {
      FS_ASSIGN(const auto path, GetString(*json, "model_path", where));
      if (path) return *path;
    }
  }
  if (response.status != 200) {
    return Unavailable(
        fmt::format("{}: HTTP {}: {}", where, response.status, ErrorMessage(response.body)));
  }
  FS_ASSIGN(const Json models, ParseJson(response.body, where));
  if (models.is_object() && models.contains("data") && models["data"].is_array() &&
      !models["data"].empty() && models["data"][0].is_object()) {
    FS_ASSIGN(const std::optional<std::string> id, GetString(models["data"][0], "id", where));
    if (id) return *id;
  }
  return Unavailable(fmt::format("{}: lists no model, name one with --model", where));
}

Status FlushCache(const TargetServer& server, int64_t timeout_ms) {
  const int64_t deadline_ns = Clock::Real().NowNs() + timeout_ms * 1'000'000;
  const char* path = "/flush_cache";
  for (;;) {
    FS_ASSIGN(const HttpClient::Response response, HttpClient::Fetch(CallTo(server, "POST", path)));
    if (response.status == 200) return {};
    if (response.status == 404 || response.status == 405) {
      if (std::string_view(path) == "/reset_prefix_cache") {
        return Unsupported(fmt::format(
            "{}: has neither /flush_cache nor /reset_prefix_cache, its prefix cache cannot be "
            "dropped",
            server.base_url));
      }
      path = "/reset_prefix_cache";
      continue;
    }
    if (Clock::Real().NowNs() >= deadline_ns) {
      return Unavailable(fmt::format("{}{}: HTTP {}: {}", server.base_url, path, response.status,
                                     ErrorMessage(response.body)));
    }
    std::this_thread::sleep_for(kRetryInterval);
  }
}

Json ServerInfo(const TargetServer& server) {
  for (const char* path : {"/server_info", "/get_server_info"}) {
    const auto response = HttpClient::Fetch(CallTo(server, "GET", path));
    if (!response.ok() || response->status != 200) continue;
    auto json = ParseJson(response->body, path);
    if (json.ok()) return *std::move(json);
  }
  return nullptr;
}

Result<ServerCounters> FetchServerCounters(const TargetServer& server) {
  ServerCounters counters;
  FS_ASSIGN(const HttpClient::Response response,
            HttpClient::Fetch(CallTo(server, "GET", "/metrics")));
  if (response.status != 200) return counters;
  counters.spec = ParseSpecCounters(response.body);
  const auto sums = PrometheusSums(response.body);
  if (const auto it = sums.find("vllm:request_success_total"); it != sums.end()) {
    counters.requests = it->second;
  }
  return counters;
}

}  // namespace firesteel
