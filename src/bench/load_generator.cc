#include "bench/load_generator.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "bench/bursts.h"
#include "bench/load_shape.h"
#include "bench/target_server.h"

namespace firesteel {
namespace {

constexpr int32_t kWarmupTokens = 16;
constexpr int64_t kFlushTimeoutMs = 60'000;

BodySettings SettingsOf(const LoadGeneratorOptions& options) {
  return {.api = ApiKindOfPath(options.endpoint),
          .dialect = options.dialect,
          .model = options.model,
          .output_len = options.output_len,
          .ignore_eos = options.ignore_eos,
          .extra = options.extra_body};
}

DriverOptions DriverOptionsOf(const LoadGeneratorOptions& options) {
  DriverOptions driver;
  driver.url = options.base_url + options.endpoint;
  driver.headers = {{"Content-Type", "application/json"}, {"Accept", "text/event-stream"}};
  if (!options.api_key.empty()) {
    driver.headers.emplace_back("Authorization", "Bearer " + options.api_key);
  }
  driver.headers.insert(driver.headers.end(), options.headers.begin(), options.headers.end());
  driver.max_concurrency = static_cast<size_t>(std::max(options.max_concurrency, 0));
  driver.new_connections = options.new_connections;
  driver.timeouts = options.timeouts;
  return driver;
}

// Sends `prompts` as `driver` says.
Result<DriverResult> Drive(const LoadGeneratorOptions& options, const DriverOptions& driver,
                           const OptionalKeys& keys, const std::vector<Prompt>& prompts,
                           const LiveProgress& progress, const std::atomic<bool>* stop) {
  const BodySettings settings = SettingsOf(options);
  std::vector<std::string> bodies;
  std::vector<RequestRecord> records(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    bodies.push_back(RequestBody(settings, keys, prompts[i]));
    records[i].prompt_id = prompts[i].id;
    records[i].planned_prompt_tokens = prompts[i].prompt_tokens;
    records[i].requested_tokens = RequestedTokens(settings, prompts[i]);
  }
  return DriveRequests(driver, std::move(bodies), std::move(records), progress, stop);
}

Result<DriverResult> DriveClosed(const LoadGeneratorOptions& options, const OptionalKeys& keys,
                                 const std::vector<Prompt>& prompts,
                                 const std::atomic<bool>* stop) {
  return Drive(options, DriverOptionsOf(options), keys, prompts, nullptr, stop);
}

// One short request, again without a key that a 400 answer may be about.
Result<OptionalKeys> Probe(const LoadGeneratorOptions& options, const std::atomic<bool>* stop,
                           std::vector<std::string>* notes) {
  LoadGeneratorOptions probe = options;
  probe.max_concurrency = 1;
  // One token, so that nothing is drafted: the probe leaves the server's speculation as it was.
  const std::vector<Prompt> prompts = {{.id = "probe", .text = "Hello", .output_tokens = 1}};
  // Only our own bodies have keys that can be left out.
  const bool ours =
      options.dialect == Dialect::kNative && ApiKindOfPath(options.endpoint) != ApiKind::kSglang;
  OptionalKeys keys = {.token_ids = ours, .usage = ours};
  for (;;) {
    FS_ASSIGN(const DriverResult result, DriveClosed(probe, keys, prompts, stop));
    const RequestRecord& record = result.records.front();
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

Status WarmUp(const LoadGeneratorOptions& options, const OptionalKeys& keys,
              const std::vector<Prompt>& prompts, const std::atomic<bool>* stop,
              LoadResult* result) {
  std::vector<Prompt> warmups =
      SelectPrompts(options.warmup_prompts.empty() ? prompts : options.warmup_prompts,
                    options.num_warmups, std::nullopt);
  for (Prompt& warmup : warmups) {
    const int32_t wanted = warmup.output_tokens > 0 ? warmup.output_tokens : options.output_len;
    warmup.output_tokens = std::min(wanted, kWarmupTokens);
  }
  FS_ASSIGN(const DriverResult warm, DriveClosed(options, keys, warmups, stop));
  for (const RequestRecord& record : warm.records) {
    if (!record.ok()) {
      return Unavailable(fmt::format("{}{}: a warm-up request failed: {}", options.base_url,
                                     options.endpoint, record.error));
    }
  }
  if (const auto first = warm.records.front().E2e()) result->warmup_first_ms = *first * 1000;
  return {};
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
  return SecondsFromNs(last - first);
}

// After the run, since it costs more than a read takes.
void CountText(const Tokenizer* tokenizer, std::vector<RequestRecord>* records) {
  CountTokens count;
  if (tokenizer != nullptr) {
    count = [tokenizer](std::string_view text) {
      return static_cast<int32_t>(tokenizer->Encode(text, /*add_special_tokens=*/false).size());
    };
  }
  for (RequestRecord& record : *records) {
    if (count) record.retokenized_tokens = count(record.text);
    RefineBursts(count, &record);
  }
}

}  // namespace

void NormalizeTarget(std::string* base_url, std::string* endpoint) {
  while (base_url->ends_with('/')) base_url->pop_back();
  if (!base_url->ends_with("/v1")) return;
  base_url->resize(base_url->size() - 3);
  while (base_url->ends_with('/')) base_url->pop_back();
  if (!endpoint->starts_with("/v1/") && *endpoint != DefaultPath(ApiKind::kSglang)) {
    *endpoint = "/v1" + *endpoint;
  }
}

Result<LoadResult> RunLoad(const LoadGeneratorOptions& caller_options,
                           const std::vector<Prompt>& prompts, const LoadProgress& progress,
                           const std::atomic<bool>* stop) {
  LoadGeneratorOptions options = caller_options;
  NormalizeTarget(&options.base_url, &options.endpoint);
  const TargetServer server = {.base_url = options.base_url, .api_key = options.api_key};
  DriverOptions driver = DriverOptionsOf(options);
  std::vector<double> timestamps_ms;
  for (const Prompt& prompt : prompts) {
    if (prompt.timestamp_ms) timestamps_ms.push_back(*prompt.timestamp_ms);
  }
  FS_ASSIGN(driver.arrivals_ns,
            ArrivalsOf(options.shape, options.rules, prompts.size(), timestamps_ms));
  driver.duration_ns = static_cast<int64_t>(options.duration_s * 1e9);
  driver.stop_gracefully = options.keep_when_stopped;

  LoadResult result;
  if (options.model.empty()) {
    FS_ASSIGN(options.model, FirstServedModel(server));
  }
  result.model = options.model;
  FS_ASSIGN(const OptionalKeys keys, Probe(options, stop, &result.notes));
  if (options.num_warmups > 0) FS_TRY(WarmUp(options, keys, prompts, stop, &result));
  if (options.flush_cache) FS_TRY(FlushCache(server, kFlushTimeoutMs));

  FS_ASSIGN(const ServerCounters before, FetchServerCounters(server));
  const LiveProgress watch = [&](const LiveFigures& live) {
    if (progress) progress(live.finished, live.total, live.failed);
    if (options.live) options.live(live);
  };
  FS_ASSIGN(DriverResult run, Drive(options, driver, keys, prompts, watch, stop));
  result.records = std::move(run.records);
  result.client = run.client;
  result.client_duration_s = run.client_duration_s;
  result.interrupted = run.interrupted;
  result.duration_s = DurationSeconds(result.records);
  // A server that died meanwhile is in the records; they are not thrown away for its counters.
  if (const auto after = FetchServerCounters(server); !after.ok()) {
    result.notes.push_back("after the run: " + after.status().message());
  } else {
    if (after->spec) {
      FS_ASSIGN(result.spec,
                SpecCounters::Difference(before.spec.value_or(SpecCounters()), *after->spec));
    }
    if (after->requests) result.requests_counted = *after->requests - before.requests.value_or(0);
  }
  if (ApiKindOfPath(options.endpoint) == ApiKind::kSglang || options.rules == Dialect::kSglang) {
    const int64_t asked_ns = Clock::Real().NowNs();
    result.server_info = ServerInfo(server);
    result.server_info_s = SecondsFromNs(Clock::Real().NowNs() - asked_ns);
  }
  CountText(options.tokenizer, &result.records);
  NoteMissing(result.records, keys, &result.notes);
  return result;
}

}  // namespace firesteel
