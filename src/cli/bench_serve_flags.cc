#include "cli/bench_serve_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "base/json.h"

namespace firesteel {
namespace {

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

Result<double> NumberIn(const std::string& flag, const std::string& text) {
  double value = 0;
  const auto r = std::from_chars(text.data(), text.data() + text.size(), value);
  if (r.ec != std::errc() || r.ptr != text.data() + text.size()) {
    return InvalidArgument(fmt::format("{} holds {}, expected a number", flag, text));
  }
  return value;
}

std::vector<std::string> SplitList(const std::string& text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// "KEY=VALUE" with the separator `sep`.
Result<std::pair<std::string, std::string>> SplitPair(const std::string& flag,
                                                      const std::string& text, char sep) {
  const size_t at = text.find(sep);
  if (at == std::string::npos || at == 0) {
    return InvalidArgument(fmt::format("{} holds {}, expected KEY{}VALUE", flag, text, sep));
  }
  return std::pair(text.substr(0, at), text.substr(at + 1));
}

Status ReadRequest(const FlagValues& values, LoadGeneratorOptions* load) {
  Json& body = load->extra_body;
  double temperature = 0;
  FS_TRY(values.ReadDouble("--temperature", 0, 100, &temperature));
  // vLLM's tool leaves it to the server.
  if (values.Has("--temperature") || load->dialect != Dialect::kVllm)
    body["temperature"] = temperature;
  for (const RequestKey& key : kRequestKeys) {
    double value = 0;
    FS_TRY(values.ReadDouble(key.flag, key.lo, key.hi, &value));
    if (values.Has(key.flag)) body[key.key] = value;
  }
  int32_t count = 0;
  FS_TRY(values.ReadInt("--top-k", -1, INT32_MAX, &count));
  if (values.Has("--top-k")) body["top_k"] = count;
  FS_TRY(values.ReadInt("--logprobs", 0, 1000, &count));
  if (values.Has("--logprobs")) body["logprobs"] = count;
  int64_t seed = 0;
  FS_TRY(values.ReadInt64("--request-seed", INT64_MIN, INT64_MAX, &seed));
  if (values.Has("--request-seed")) body["seed"] = seed;
  if (values.Has("--extra-body")) {
    FS_ASSIGN(const Json extra, ParseJson(values.Text("--extra-body"), "--extra-body"));
    if (!extra.is_object()) return InvalidArgument("--extra-body: is not a JSON object");
    for (const auto& [key, value] : extra.items()) body[key] = value;
  }
  return values.ReadInt("--output-len", 1, INT32_MAX, &load->output_len);
}

Status ReadServer(const FlagValues& values, BenchServeOptions* options) {
  LoadGeneratorOptions* load = &options->load;
  std::string backend = "openai";
  FS_TRY(values.ReadChoice("--backend",
                           {"openai", "openai-chat", "vllm", "vllm-chat", "sglang", "sglang-native",
                            "sglang-oai", "sglang-oai-chat"},
                           &backend));
  options->exports.backend = backend;
  const bool sglang = backend.starts_with("sglang");
  std::string dialect = "native";
  FS_TRY(values.ReadChoice("--dialect", {"native", "vllm", "sglang"}, &dialect));
  if (dialect != "native") load->dialect = dialect == "vllm" ? Dialect::kVllm : Dialect::kSglang;
  load->rules = load->dialect;
  if (!values.Has("--dialect") && (sglang || values.Has("--output-file"))) {
    load->rules = Dialect::kSglang;
  }

  std::string host = "127.0.0.1";
  int32_t port = sglang ? 30'000 : 8000;
  FS_TRY(values.ReadText("--host", &host));
  FS_TRY(values.ReadInt("--port", 1, 65'535, &port));
  if (host.find(':') != std::string::npos) host = "[" + host + "]";
  load->base_url = fmt::format("http://{}:{}", host, port);
  FS_TRY(values.ReadText("--base-url", &load->base_url));
  if (!load->base_url.starts_with("http://") && !load->base_url.starts_with("https://")) {
    return InvalidArgument(
        fmt::format("--base-url is {}, expected http://… or https://…", load->base_url));
  }
  ApiKind api = ApiKind::kCompletions;
  if (backend.ends_with("-chat")) api = ApiKind::kChat;
  if (backend == "sglang" || backend == "sglang-native") api = ApiKind::kSglang;
  load->endpoint = DefaultPath(api);
  FS_TRY(values.ReadText("--endpoint", &load->endpoint));
  if (!load->endpoint.starts_with('/')) {
    return InvalidArgument(
        fmt::format("--endpoint is {}, expected a path such as /v1/completions", load->endpoint));
  }
  NormalizeTarget(&load->base_url, &load->endpoint);

  FS_TRY(values.ReadText("--model", &load->model));
  options->tokenizer = values.Text("--tokenizer");
  options->tokenizer_named = values.Has("--tokenizer");
  if (!options->tokenizer_named &&
      std::filesystem::exists(std::filesystem::path(load->model) / "tokenizer.json")) {
    options->tokenizer = load->model;
  }
  FS_TRY(values.ReadText("--served-model-name", &load->model));
  if (const char* key = std::getenv("OPENAI_API_KEY"); key != nullptr) load->api_key = key;
  FS_TRY(values.ReadText("--api-key", &load->api_key));
  for (const std::string& header : values.List("--header")) {
    FS_ASSIGN(auto pair, SplitPair("--header", header, '='));
    load->headers.push_back(std::move(pair));
  }
  std::string connection = "keep-alive";
  FS_TRY(values.ReadChoice("--connection", {"keep-alive", "per-request"}, &connection));
  load->new_connections = connection == "per-request";
  FS_TRY(values.ReadSwitch("--flush-cache", &load->flush_cache));
  DriverTimeouts& t = load->timeouts;
  FS_TRY(values.ReadInt64("--connect-timeout-ms", 0, INT32_MAX, &t.connect_ms));
  FS_TRY(values.ReadInt64("--first-token-timeout-ms", 0, INT32_MAX, &t.first_ms));
  FS_TRY(values.ReadInt64("--idle-timeout-ms", 0, INT32_MAX, &t.idle_ms));
  return values.ReadInt64("--request-timeout-ms", 0, INT32_MAX, &t.total_ms);
}

Status ReadDataset(const FlagValues& values, BenchServeOptions* options) {
  DatasetOptions* d = &options->dataset;
  const bool sglang = options->load.rules == Dialect::kSglang;
  FS_TRY(values.ReadChoice("--dataset-name", DatasetNames(), &d->name));
  d->path = values.Text("--dataset-path");
  d->dialect = options->load.rules;
  FS_TRY(values.ReadInt("--num-prompts", 1, 10'000'000, &d->num_prompts));
  if (values.Has("--seed")) {
    int64_t seed = 0;
    FS_TRY(values.ReadInt64("--seed", INT64_MIN, INT64_MAX, &seed));
    d->seed = static_cast<uint64_t>(seed);
  }
  FS_TRY(values.ReadSwitch("--oversample", &d->oversample));
  int32_t length = 0;
  FS_TRY(values.ReadInt("--sharegpt-output-len", 1, INT32_MAX, &length));
  if (values.Has("--sharegpt-output-len")) d->sharegpt_output_len = length;
  options->exports.sharegpt_output_len = length;
  FS_TRY(values.ReadInt("--sharegpt-context-len", 1, INT32_MAX, &d->sharegpt_context_len));
  const bool prefixes = d->name == "prefix_repetition" || d->name == "generated-shared-prefix";
  if (sglang) d->output_len = 1024;
  if (prefixes) d->output_len = d->name == "prefix_repetition" ? 128 : 256;
  FS_TRY(values.ReadInt("--random-input-len", 1, 1 << 24, &d->input_len));
  FS_TRY(values.ReadInt(prefixes ? "--gsp-output-len" : "--random-output-len", 1, 1 << 24,
                        &d->output_len));
  double ratio = 0;
  FS_TRY(values.ReadDouble("--random-range-ratio", 0, 1, &ratio));
  if (values.Has("--random-range-ratio")) d->range_ratio = ratio;
  FS_TRY(values.ReadInt("--random-prefix-len", 0, 1 << 24, &d->prefix_len));
  FS_TRY(values.ReadSwitch("--tokenize-prompt", &d->send_ids));
  if (d->name == "prefix_repetition") {
    d->num_groups = 10;
    d->system_len = d->question_len = 256;
    d->prompts_per_group = std::max(1, (d->num_prompts > 0 ? d->num_prompts : 1000) / 10);
  }
  FS_TRY(values.ReadInt("--gsp-num-groups", 1, 1'000'000, &d->num_groups));
  if (d->name == "prefix_repetition") {
    d->prompts_per_group =
        std::max(1, (d->num_prompts > 0 ? d->num_prompts : 1000) / d->num_groups);
  }
  FS_TRY(values.ReadInt("--gsp-prompts-per-group", 1, 1'000'000, &d->prompts_per_group));
  FS_TRY(values.ReadInt("--gsp-system-prompt-len", 1, 1 << 24, &d->system_len));
  FS_TRY(values.ReadInt("--gsp-question-len", 1, 1 << 24, &d->question_len));
  FS_TRY(values.ReadSwitch("--gsp-ordered", &d->ordered));
  FS_TRY(values.ReadInt("--trace-block-tokens", 1, 1 << 20, &d->trace_block_tokens));
  FS_TRY(values.ReadDouble("--trace-slowdown", 1e-6, 1e6, &d->trace_slowdown));

  options->exports.dataset = d->name;
  options->exports.random_input_len = d->input_len;
  options->exports.random_output_len = d->output_len;
  options->exports.random_range_ratio = ratio;

  bool ignore_eos =
      d->name.starts_with("random") || d->name == "mooncake" || d->name == "timed_trace" || sglang;
  FS_TRY(values.ReadSwitch("--ignore-eos", &ignore_eos));
  bool disabled = false;
  FS_TRY(values.ReadSwitch("--disable-ignore-eos", &disabled));
  options->load.ignore_eos = ignore_eos && !disabled;
  return {};
}

Status ReadLoad(const FlagValues& values, BenchServeOptions* options) {
  LoadGeneratorOptions* load = &options->load;
  LoadShape& shape = load->shape;
  load->max_concurrency = 0;
  FS_TRY(values.ReadInt("--max-concurrency", 1, 65'536, &load->max_concurrency));
  double rate = 0;
  if (values.Has("--request-rate") && values.Text("--request-rate") != "inf") {
    FS_TRY(values.ReadDouble("--request-rate", 1e-6, 1e6, &rate));
    shape.request_rate = rate;
  }
  FS_TRY(values.ReadDouble("--burstiness", 1e-6, 1e6, &shape.burstiness));
  FS_TRY(values.ReadChoice("--ramp-up-strategy", {"linear", "exponential"}, &shape.ramp_up));
  if (!shape.ramp_up.empty()) {
    for (const auto& [flag, out] : {std::pair("--ramp-up-start-rps", &shape.ramp_start_rate),
                                    std::pair("--ramp-up-end-rps", &shape.ramp_end_rate)}) {
      if (!values.Has(flag)) {
        return InvalidArgument(fmt::format("{} is missing, which --ramp-up-strategy needs", flag));
      }
      FS_TRY(values.ReadDouble(flag, 1e-6, 1e6, &out->emplace()));
    }
  }
  const bool trace_data =
      options->dataset.name == "mooncake" || options->dataset.name == "timed_trace";
  bool by_trace = trace_data;
  FS_TRY(values.ReadSwitch("--use-trace-timestamps", &by_trace));
  std::string arrival;
  FS_TRY(values.ReadChoice("--arrival", {"poisson", "gamma", "constant", "trace"}, &arrival));
  const bool timed = shape.request_rate || !shape.ramp_up.empty();
  if (arrival.empty()) {
    if (by_trace) {
      arrival = "trace";
    } else if (timed) {
      arrival = values.Has("--burstiness") && shape.burstiness != 1 ? "gamma" : "poisson";
    }
  }
  if (arrival == "trace") shape.request_rate.reset();
  if (!arrival.empty() && arrival != "trace" && !timed) {
    return InvalidArgument(
        fmt::format("--arrival is {}, which needs --request-rate or --ramp-up-strategy", arrival));
  }
  if (!arrival.empty()) shape.kind = arrival;
  shape.seed = options->dataset.seed.value_or(load->rules == Dialect::kSglang ? 42 : 0);
  FS_TRY(values.ReadDouble("--duration", 1e-3, 1e7, &load->duration_s));
  FS_TRY(values.ReadInt("--num-warmups", 0, 1'000'000, &load->num_warmups));
  FS_TRY(values.ReadDouble("--max-client-lag-ms", 1e-3, 1e6, &load->max_client_lag_ms));
  for (const std::string& limit : values.List("--goodput")) {
    FS_ASSIGN(const auto pair, SplitPair("--goodput", limit, ':'));
    FS_ASSIGN(const double value, NumberIn("--goodput", pair.second));
    GoodputLimits& g = load->goodput;
    if (pair.first == "ttft")
      g.ttft_ms = value;
    else if (pair.first == "tpot")
      g.tpot_ms = value;
    else if (pair.first == "e2el")
      g.e2e_ms = value;
    else if (pair.first == "itl_p95")
      g.itl_p95_ms = value;
    else if (pair.first == "tps_user")
      g.min_tps_user = value;
    else
      return InvalidArgument(fmt::format(
          "--goodput holds {}, expected one of ttft, tpot, e2el, itl_p95, tps_user", pair.first));
  }
  return {};
}

Status ReadOutput(const FlagValues& values, BenchServeOptions* options) {
  ExportOptions& e = options->exports;
  FS_TRY(values.ReadSwitch("--save-detailed", &e.detailed));
  FS_TRY(values.ReadSwitch("--strict-json", &e.strict_json));
  FS_TRY(values.ReadSwitch("--save-result", &options->save_vllm));
  FS_TRY(values.ReadSwitch("--append-result", &options->append_vllm));
  options->save_vllm |= options->append_vllm || values.Has("--result-filename");
  options->vllm_dir = values.Text("--result-dir");
  options->vllm_file = values.Text("--result-filename");
  options->sglang_file = values.Text("--output-file");
  options->result_json = values.Text("--result-json");
  e.label = values.Text("--label");
  e.tag = values.Text("--tag");
  e.tokenizer_id = values.Text("--tokenizer");
  if (values.Has("--percentile-metrics")) {
    e.metrics = SplitList(values.Text("--percentile-metrics"));
    for (const std::string& metric : e.metrics) {
      if (metric != "ttft" && metric != "tpot" && metric != "itl" && metric != "e2el") {
        return InvalidArgument(
            fmt::format("--percentile-metrics holds {}, expected ttft, tpot, itl, e2el", metric));
      }
    }
  }
  if (values.Has("--metric-percentiles")) {
    e.percentiles.clear();
    for (const std::string& text : SplitList(values.Text("--metric-percentiles"))) {
      FS_ASSIGN(const double p, NumberIn("--metric-percentiles", text));
      if (!(p >= 0 && p <= 100)) {
        return InvalidArgument(fmt::format("--metric-percentiles holds {}, expected 0 to 100", p));
      }
      e.percentiles.push_back(p);
    }
  }
  for (const std::string& entry : values.List("--metadata")) {
    FS_ASSIGN(auto pair, SplitPair("--metadata", entry, '='));
    options->load.metadata[pair.first] = pair.second;
  }
  bool quiet = false;
  FS_TRY(values.ReadSwitch("--disable-tqdm", &quiet));
  options->progress = !quiet;
  return {};
}

}  // namespace

Result<BenchServeOptions> ReadBenchServeFlags(const FlagValues& values) {
  BenchServeOptions options;
  FS_TRY(ReadServer(values, &options));
  FS_TRY(ReadDataset(values, &options));
  FS_TRY(ReadLoad(values, &options));
  FS_TRY(ReadRequest(values, &options.load));
  FS_TRY(ReadOutput(values, &options));
  const std::string& name = options.dataset.name;
  const bool generated = name.starts_with("random") || name == "prefix_repetition" ||
                         name == "generated-shared-prefix";
  if (!generated && options.dataset.path.empty()) {
    return InvalidArgument("--dataset-path is missing, expected a file of prompts");
  }
  return options;
}

}  // namespace firesteel
