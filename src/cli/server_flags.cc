#include "cli/server_flags.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/mapped_file.h"

namespace firesteel {

std::vector<FlagSpec> ServerFlags() {
  constexpr auto kValue = FlagKind::kValue;
  constexpr auto kSwitch = FlagKind::kSwitch;
  constexpr auto kNone = FlagEffect::kNone;
  const ServerOptions d;
  const auto number = [](auto value) { return fmt::format("{}", value); };
  return {
      {"--host", kValue, "ADDRESS", d.host, "address to listen on; 0.0.0.0 for all", {}},
      {"--port",
       kValue,
       "N",
       number(d.port),
       "port to listen on; 0 takes any free one and prints it",
       {}},
      {"--served-model-name",
       FlagKind::kList,
       "NAME…",
       "the directory's name",
       "names that requests may use; the first is in answers",
       {}},
      {"--api-key", kValue, "KEY", "none", "clients must send it as a bearer token", {}},
      {"--chat-template",
       kValue,
       "FILE",
       "the checkpoint's",
       "Jinja file, or the template itself",
       {}},
      {"--max-body-bytes",
       kValue,
       "N",
       number(d.max_body_bytes),
       "largest request body; above, 413",
       {}},
      {"--header-timeout-ms",
       kValue,
       "N",
       number(d.header_timeout_ms),
       "time for a request's header",
       {}},
      {"--stream-idle-timeout-ms",
       kValue,
       "N",
       number(d.stream_idle_timeout_ms),
       "how long a client may stop reading",
       {}},
      {"--max-connections", kValue, "N", number(d.max_connections), "open connections", {}},
      {"--drain-timeout-ms",
       kValue,
       "N",
       number(d.drain_timeout_ms),
       "time for accepted requests after SIGTERM",
       {}},
      {"--reasoning-parser", kValue, "NAME", "", "answers are one text", {}, kNone},
      {"--tool-call-parser", kValue, "NAME", "", "answers are one text", {}, kNone},
      {"--enable-auto-tool-choice", kSwitch, "", "", "answers are one text", {}, kNone},
      {"--disable-uvicorn-access-log", kSwitch, "", "", "requests are not logged", {}, kNone},
      {"--log-level",
       kValue,
       "LEVEL",
       "info",
       "debug, info, warning or error: what goes to stderr",
       {}},
      {"--uvicorn-log-level", kValue, "LEVEL", "", "requests are not logged", {}, kNone},
      {"--disable-log-requests", kSwitch, "", "", "requests are not logged", {}, kNone},
      {"--enable-log-requests", kSwitch, "", "", "requests are not logged", {}, kNone},
      {"--enable-prompt-tokens-details",
       kSwitch,
       "",
       "",
       "usage has cached_tokens always",
       {"--enable-cache-report"},
       kNone},
      {"--disable-log-stats", kSwitch, "", "off", "no line of figures every ten seconds", {}},
      {"--enable-metrics", kSwitch, "", "", "figures are at /metrics always", {}, kNone},
  };
}

Result<ServerOptions> ReadServerFlags(const FlagValues& values) {
  ServerOptions o;
  FS_TRY(values.ReadText("--host", &o.host));
  if (o.host.empty()) return InvalidArgument("--host is empty, expected an address");
  FS_TRY(values.ReadInt("--port", 0, 65'535, &o.port));
  std::string level = "info";
  FS_TRY(values.ReadChoice("--log-level", {"debug", "info", "warning", "error"}, &level));
  SetLogLevel(*LogLevelFromName(level));
  o.served_model_names = values.List("--served-model-name");
  FS_TRY(values.ReadText("--api-key", &o.api_key));
  FS_TRY(values.ReadInt64("--max-body-bytes", 1, int64_t{1} << 40, &o.max_body_bytes));
  FS_TRY(values.ReadInt64("--header-timeout-ms", 1, INT32_MAX, &o.header_timeout_ms));
  FS_TRY(values.ReadInt64("--stream-idle-timeout-ms", 1, INT32_MAX, &o.stream_idle_timeout_ms));
  FS_TRY(values.ReadInt("--max-connections", 1, 1 << 20, &o.max_connections));
  FS_TRY(values.ReadInt64("--drain-timeout-ms", 0, INT32_MAX, &o.drain_timeout_ms));
  o.log_stats = !values.Has("--disable-log-stats");
  const std::string chat_template = values.Text("--chat-template");
  const bool is_source = chat_template.find("{{") != std::string::npos ||
                         chat_template.find("{%") != std::string::npos;
  if (is_source || chat_template.empty()) {
    o.chat_template = chat_template;
  } else {
    FS_ASSIGN(o.chat_template, ReadFile(chat_template));
  }
  return o;
}

}  // namespace firesteel
