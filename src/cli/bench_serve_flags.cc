#include "cli/bench_serve_flags.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>

#include "base/json.h"

namespace firesteel {
namespace {

constexpr auto kValue = FlagKind::kValue;
constexpr auto kSwitch = FlagKind::kSwitch;

// Flags that become a key of every request when given.
struct RequestKey {
  const char* flag;
  const char* key;
  double lo, hi;
};
constexpr RequestKey kRequestKeys[] = {
    {"--top-p", "top_p", 0, 1},
    {"--min-p", "min_p", 0, 1},
    {"--presence-penalty", "presence_penalty", -2, 2},
    {"--frequency-penalty", "frequency_penalty", -2, 2},
    {"--repetition-penalty", "repetition_penalty", 1e-3, 100},
};

Status ReadRequest(const FlagValues& values, LoadOptions* load) {
  Json& body = load->extra_body;
  double temperature = 0;
  FS_TRY(values.ReadDouble("--temperature", 0, 100, &temperature));
  body["temperature"] = temperature;
  for (const RequestKey& key : kRequestKeys) {
    double value = 0;
    FS_TRY(values.ReadDouble(key.flag, key.lo, key.hi, &value));
    if (values.Has(key.flag)) body[key.key] = value;
  }
  int32_t top_k = 0;
  FS_TRY(values.ReadInt("--top-k", -1, INT32_MAX, &top_k));
  if (values.Has("--top-k")) body["top_k"] = top_k;
  int64_t seed = 0;
  FS_TRY(values.ReadInt64("--request-seed", INT64_MIN, INT64_MAX, &seed));
  if (values.Has("--request-seed")) body["seed"] = seed;
  if (values.Has("--extra-body")) {
    FS_ASSIGN(const Json extra, ParseJson(values.Text("--extra-body"), "--extra-body"));
    if (!extra.is_object()) return InvalidArgument("--extra-body: is not a JSON object");
    for (const auto& [key, value] : extra.items()) body[key] = value;
  }
  return {};
}

Status ReadServer(const FlagValues& values, LoadOptions* load) {
  std::string host = "127.0.0.1";
  int32_t port = 8000;
  FS_TRY(values.ReadText("--host", &host));
  FS_TRY(values.ReadInt("--port", 1, 65'535, &port));
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  load->base_url = fmt::format("http://{}:{}", host, port);
  FS_TRY(values.ReadText("--base-url", &load->base_url));
  if (!load->base_url.starts_with("http://") && !load->base_url.starts_with("https://")) {
    return InvalidArgument(
        fmt::format("--base-url is {}, expected http://… or https://…", load->base_url));
  }
  while (load->base_url.ends_with('/')) load->base_url.pop_back();
  FS_TRY(values.ReadText("--model", &load->model));
  std::string backend = "openai";
  FS_TRY(values.ReadChoice(
      "--backend", {"openai", "openai-chat", "vllm", "vllm-chat", "sglang-oai", "sglang-oai-chat"},
      &backend));
  if (backend.ends_with("-chat")) load->endpoint = "/v1/chat/completions";
  FS_TRY(values.ReadText("--endpoint", &load->endpoint));
  if (!load->endpoint.starts_with('/')) {
    return InvalidArgument(
        fmt::format("--endpoint is {}, expected a path such as /v1/completions", load->endpoint));
  }
  if (const char* key = std::getenv("OPENAI_API_KEY"); key != nullptr) load->api_key = key;
  return values.ReadText("--api-key", &load->api_key);
}

Status ReadOutput(const FlagValues& values, BenchServeOptions* options) {
  FS_TRY(values.ReadSwitch("--save-detailed", &options->save_detailed));
  const bool save = values.Text("--save-result") == "true" || options->save_detailed;
  std::string name = values.Text("--output-file");
  if (name.empty()) name = values.Text("--result-filename");
  if (name.empty() && save) {
    name = fmt::format("bench-c{}-{:%Y%m%d-%H%M%S}.json", options->load.max_concurrency,
                       fmt::gmtime(std::time(nullptr)));
  }
  const std::string directory = values.Text("--result-dir");
  if (!name.empty()) options->output_file = directory.empty() ? name : directory + "/" + name;
  return {};
}

}  // namespace

std::vector<FlagSpec> BenchServeFlags() {
  constexpr auto kNone = FlagEffect::kNone;
  constexpr auto kLater = FlagEffect::kLater;
  return {
      {"--base-url", kValue, "URL", "http://HOST:PORT", "server to measure", {}},
      {"--host", kValue, "ADDRESS", "127.0.0.1", "its address, where --base-url is not given", {}},
      {"--port", kValue, "N", "8000", "its port", {}},
      {"--model", kValue, "NAME", "the first that the server lists", "model to ask for", {}},
      {"--backend",
       kValue,
       "NAME",
       "openai",
       "openai, openai-chat, vllm, vllm-chat, sglang-oai, sglang-oai-chat",
       {}},
      {"--endpoint", kValue, "PATH", "/v1/completions", "or /v1/chat/completions", {}},
      {"--api-key", kValue, "KEY", "$OPENAI_API_KEY", "sent as a bearer token", {}},
      {"--dataset-name",
       kValue,
       "KIND",
       "jsonl",
       "jsonl or custom: lines of {\"prompt\", \"id\", \"output_tokens\"}",
       {}},
      {"--dataset-path", kValue, "FILE", "required", "the prompts", {}},
      {"--num-prompts",
       kValue,
       "N",
       "every row",
       "requests to measure; rows repeat when there are fewer",
       {}},
      {"--max-concurrency", kValue, "N", "all at once", "requests in flight", {}},
      {"--output-len",
       kValue,
       "N",
       "128",
       "tokens to generate at most, where a row does not say",
       {"--custom-output-len"}},
      {"--ignore-eos", kSwitch, "", "off", "generate that many tokens always", {}},
      {"--temperature", kValue, "T", "0", "0 is greedy", {}},
      {"--top-p", kValue, "P", "the server's", "sent when given", {}},
      {"--top-k", kValue, "N", "the server's", "sent when given", {}},
      {"--min-p", kValue, "P", "the server's", "sent when given", {}},
      {"--presence-penalty", kValue, "X", "the server's", "sent when given", {}},
      {"--frequency-penalty", kValue, "X", "the server's", "sent when given", {}},
      {"--repetition-penalty", kValue, "X", "the server's", "sent when given", {}},
      {"--request-seed", kValue, "N", "none", "seed of every request", {}},
      {"--extra-body",
       kValue,
       "JSON",
       "none",
       "further keys of every request",
       {"--extra-request-body"}},
      {"--seed", kValue, "N", "the file's order", "shuffle the prompts by this seed", {}},
      {"--num-warmups",
       kValue,
       "N",
       "0",
       "requests before the measured ones",
       {"--warmup-requests"}},
      {"--request-timeout-ms", kValue, "N", "600000", "for one whole request", {}},
      {"--save-result", kSwitch, "", "off", "write the figures as JSON", {}},
      {"--save-detailed", kSwitch, "", "off", "the same with every request", {"--output-details"}},
      {"--result-dir", kValue, "DIR", ".", "where to", {}},
      {"--result-filename", kValue, "FILE", "bench-cN-DATE.json", "and under which name", {}},
      {"--output-file", kValue, "FILE", "none", "write the figures here", {}},
      {"--request-rate",
       kValue,
       "RATE",
       "inf",
       "only inf: the number in flight is fixed, not the rate",
       {}},
      {"--percentile-metrics", kValue, "LIST", "", "every metric has its percentiles", {}, kNone},
      {"--metric-percentiles", kValue, "LIST", "", "P50, P95 and P99 are reported", {}, kNone},
      {"--tokenizer", kValue, "DIR", "", "tokens are counted by the server", {}, kNone},
      {"--trust-remote-code", kSwitch, "", "", "no model code is run", {}, kNone},
      {"--disable-tqdm", kSwitch, "", "", "progress goes to stderr", {}, kNone},
      {"--disable-shuffle",
       kSwitch,
       "",
       "",
       "the file's order is kept unless --seed is given",
       {},
       kNone},
      {"--flush-cache", kSwitch, "", "", "the server's cache is measured as it is", {}, kLater},
      {"--goodput", FlagKind::kList, "LIMIT…", "", "limits on latency are not counted", {}, kLater},
      {"--random-input-len", kValue, "N", "", "prompts come from a file", {}, kLater},
      {"--random-output-len", kValue, "N", "", "prompts come from a file", {}, kLater},
  };
}

Result<BenchServeOptions> ReadBenchServeFlags(const FlagValues& values) {
  BenchServeOptions options;
  FS_TRY(ReadServer(values, &options.load));
  std::string kind = "jsonl";
  FS_TRY(values.ReadChoice("--dataset-name", {"jsonl", "custom"}, &kind));
  options.dataset_path = values.Text("--dataset-path");
  if (options.dataset_path.empty())
    return InvalidArgument("--dataset-path is missing, expected a file of prompts");
  if (values.Has("--request-rate") && values.Text("--request-rate") != "inf") {
    return InvalidArgument(fmt::format("--request-rate is {}, this version has only inf",
                                       values.Text("--request-rate")));
  }
  FS_TRY(values.ReadInt("--num-prompts", 1, 10'000'000, &options.num_prompts));
  options.load.max_concurrency = 0;
  FS_TRY(values.ReadInt("--max-concurrency", 1, 65'536, &options.load.max_concurrency));
  FS_TRY(values.ReadInt("--output-len", 1, INT32_MAX, &options.load.output_len));
  FS_TRY(values.ReadSwitch("--ignore-eos", &options.load.ignore_eos));
  FS_TRY(values.ReadInt("--num-warmups", 0, 1'000'000, &options.load.num_warmups));
  FS_TRY(values.ReadInt64("--request-timeout-ms", 1, INT32_MAX, &options.load.request_timeout_ms));
  if (values.Has("--seed")) {
    int64_t seed = 0;
    FS_TRY(values.ReadInt64("--seed", INT64_MIN, INT64_MAX, &seed));
    options.shuffle_seed = static_cast<uint64_t>(seed);
  }
  FS_TRY(ReadRequest(values, &options.load));
  FS_TRY(ReadOutput(values, &options));
  return options;
}

}  // namespace firesteel
