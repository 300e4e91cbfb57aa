#include "bench/load_generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "bench/completion_stream.h"
#include "net/http_client.h"

namespace firesteel {
namespace {

constexpr int kPollMs = 100;
constexpr int32_t kWarmupTokens = 16;

// Keys that not every server takes.
struct OptionalKeys {
  bool token_ids = true;
  bool usage = true;
};

bool IsChat(const LoadOptions& options) { return options.endpoint.ends_with("/chat/completions"); }

std::string RequestBody(const LoadOptions& options, const OptionalKeys& keys,
                        const Prompt& prompt) {
  Json body = Json::object();
  body["model"] = options.model;
  if (IsChat(options)) {
    body["messages"] = Json::array({Json{{"role", "user"}, {"content", prompt.text}}});
  } else {
    body["prompt"] = prompt.text;
  }
  body["max_tokens"] = prompt.output_tokens > 0 ? prompt.output_tokens : options.output_len;
  body["temperature"] = 0.0;
  if (options.ignore_eos) body["ignore_eos"] = true;
  body["stream"] = true;
  if (keys.usage) body["stream_options"] = Json{{"include_usage", true}};
  if (keys.token_ids) body["return_token_ids"] = true;
  for (const auto& [key, value] : options.extra_body.items()) body[key] = value;
  return DumpJson(body);
}

// Sends prompts with a fixed number in flight. One use.
class ClosedLoop {
 public:
  ClosedLoop(const LoadOptions& options, const OptionalKeys& keys,
             const std::vector<Prompt>& prompts, const LoadProgress& progress)
      : options_(options), progress_(progress), records_(prompts.size()) {
    // All bodies before the first request: writing JSON must not delay a send.
    for (size_t i = 0; i < prompts.size(); ++i) {
      bodies_.push_back(RequestBody(options, keys, prompts[i]));
      records_[i].index = i;
      records_[i].prompt_id = prompts[i].id;
      streams_.push_back(std::make_unique<CompletionStream>(&records_[i]));
    }
  }

  Result<std::vector<RequestRecord>> Run(const std::atomic<bool>* stop) {
    const size_t in_flight =
        std::min<size_t>(static_cast<size_t>(options_.max_concurrency), bodies_.size());
    while (next_ < in_flight) StartNext();
    while (finished_ < bodies_.size()) {
      if (stop != nullptr && *stop) return Cancelled("the benchmark was interrupted");
      client_.Poll(kPollMs);
    }
    return std::move(records_);
  }

 private:
  void StartNext() {
    const size_t i = next_++;
    HttpCall call;
    call.method = "POST";
    call.url = options_.base_url + options_.endpoint;
    call.headers = {{"Content-Type", "application/json"}, {"Accept", "text/event-stream"}};
    if (!options_.api_key.empty())
      call.headers.emplace_back("Authorization", "Bearer " + options_.api_key);
    call.body = std::move(bodies_[i]);
    call.timeout_ms = options_.request_timeout_ms;
    call.on_data = [this, i](std::string_view bytes, int64_t now_ns) {
      streams_[i]->OnBytes(bytes, now_ns);
    };
    call.on_done = [this, i](int status, const std::string& error, int64_t now_ns) {
      streams_[i]->OnDone(status, error, now_ns);
      ++finished_;
      if (!records_[i].ok()) ++failed_;
      if (next_ < bodies_.size()) StartNext();
      if (progress_) progress_(finished_, bodies_.size(), failed_);
    };
    records_[i].send_ns = Clock::Real().NowNs();
    client_.Start(std::move(call));
  }

  const LoadOptions& options_;
  const LoadProgress& progress_;
  std::vector<std::string> bodies_;
  std::vector<RequestRecord> records_;
  std::vector<std::unique_ptr<CompletionStream>> streams_;
  size_t next_ = 0;
  size_t finished_ = 0;
  size_t failed_ = 0;
  // Last, so that it goes first: its callbacks use everything above.
  HttpClient client_;
};

Result<std::string> FirstServedModel(const LoadOptions& options) {
  HttpCall call;
  call.url = options.base_url + "/v1/models";
  call.timeout_ms = 30'000;
  if (!options.api_key.empty())
    call.headers.emplace_back("Authorization", "Bearer " + options.api_key);
  const std::string where = call.url;
  FS_ASSIGN(const HttpClient::Response response, HttpClient::Fetch(std::move(call)));
  if (response.status != 200) {
    return Unavailable(
        fmt::format("{}: HTTP {}: {}", where, response.status, ErrorMessage(response.body)));
  }
  FS_ASSIGN(const Json models, ParseJson(response.body, where));
  if (models.is_object() && models.contains("data") && models["data"].is_array() &&
      !models["data"].empty()) {
    FS_ASSIGN(const std::optional<std::string> id, GetString(models["data"][0], "id", where));
    if (id) return *id;
  }
  return Unavailable(fmt::format("{}: lists no model, name one with --model", where));
}

// One short request, again without a key that a 400 answer may be about.
Result<OptionalKeys> Probe(const LoadOptions& options, const std::atomic<bool>* stop,
                           std::vector<std::string>* notes) {
  LoadOptions probe = options;
  probe.max_concurrency = 1;
  // One token, so that nothing is drafted: the probe leaves the server's speculation as it was.
  const std::vector<Prompt> prompts = {{.id = "probe", .text = "Hello", .output_tokens = 1}};
  OptionalKeys keys;
  for (;;) {
    FS_ASSIGN(const std::vector<RequestRecord> records,
              ClosedLoop(probe, keys, prompts, nullptr).Run(stop));
    const RequestRecord& record = records.front();
    // A server may end such a prompt at once; that is an answer too.
    if (record.ok() || (record.http_status == 200 && !record.finish_reason.empty())) return keys;
    const bool refused = record.http_status == 400 || record.http_status == 422;
    if (refused && keys.token_ids) {
      keys.token_ids = false;
      notes->push_back("the server refuses return_token_ids: output ids are not known");
    } else if (refused && keys.usage) {
      keys.usage = false;
      notes->push_back("the server refuses stream_options: tokens are counted by stream events");
    } else {
      return Unavailable(fmt::format("{}{}: the first request failed: {}", options.base_url,
                                     options.endpoint, record.error));
    }
  }
}

void NoteMissing(const std::vector<RequestRecord>& records, const OptionalKeys& keys,
                 std::vector<std::string>* notes) {
  const auto lacks = [&](auto&& missing) {
    return std::any_of(records.begin(), records.end(),
                       [&](const RequestRecord& r) { return r.ok() && missing(r); });
  };
  if (keys.token_ids && lacks([](const RequestRecord& r) { return !r.token_ids; })) {
    notes->push_back(
        "the server ignores return_token_ids: output ids are not known, ITL is per stream event");
  }
  if (keys.usage && lacks([](const RequestRecord& r) { return !r.completion_tokens; })) {
    notes->push_back(
        "the server reports no usage: tokens are counted by token ids or stream events");
  }
}

double DurationSeconds(const std::vector<RequestRecord>& records) {
  if (records.empty()) return 0;
  int64_t first = records.front().send_ns;
  int64_t last = records.front().done_ns;
  for (const RequestRecord& record : records) {
    first = std::min(first, record.send_ns);
    last = std::max(last, record.done_ns);
  }
  return static_cast<double>(last - first) * 1e-9;
}

}  // namespace

Result<LoadResult> RunLoad(const LoadOptions& caller_options, const std::vector<Prompt>& prompts,
                           const LoadProgress& progress, const std::atomic<bool>* stop) {
  LoadOptions options = caller_options;
  LoadResult result;
  if (options.model.empty()) {
    FS_ASSIGN(options.model, FirstServedModel(options));
  }
  result.model = options.model;
  FS_ASSIGN(const OptionalKeys keys, Probe(options, stop, &result.notes));
  if (options.num_warmups > 0) {
    std::vector<Prompt> warmups = SelectPrompts(prompts, options.num_warmups, std::nullopt);
    for (Prompt& warmup : warmups) {
      const int32_t wanted = warmup.output_tokens > 0 ? warmup.output_tokens : options.output_len;
      warmup.output_tokens = std::min(wanted, kWarmupTokens);
    }
    FS_ASSIGN(const std::vector<RequestRecord> records,
              ClosedLoop(options, keys, warmups, nullptr).Run(stop));
    for (const RequestRecord& record : records) {
      if (!record.ok()) {
        return Unavailable(fmt::format("{}{}: a warm-up request failed: {}", options.base_url,
                                       options.endpoint, record.error));
      }
    }
  }

  FS_ASSIGN(const std::optional<SpecCounters> before,
            FetchSpecCounters(options.base_url, options.api_key));
  FS_ASSIGN(result.records, ClosedLoop(options, keys, prompts, progress).Run(stop));
  result.duration_s = DurationSeconds(result.records);
  FS_ASSIGN(const std::optional<SpecCounters> after,
            FetchSpecCounters(options.base_url, options.api_key));
  if (after) {
    FS_ASSIGN(result.spec, SpecCounters::Difference(before.value_or(SpecCounters()), *after));
  }
  NoteMissing(result.records, keys, &result.notes);
  return result;
}

}  // namespace firesteel
