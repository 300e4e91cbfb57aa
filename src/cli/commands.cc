#include "cli/commands.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/command_line.h"
#include "cli/demo_model.h"
#include "cli/engine_flags.h"
#include "speculation/drafters.h"

namespace firesteel {

std::optional<int> BeginCommand(const CommandSpec& command, const std::vector<std::string>& args,
                                FlagValues* values) {
  Result<FlagValues> parsed = ParseCommandLine(command, args);
  if (!parsed.ok()) return FinishCommand(command, parsed.status());
  *values = *std::move(parsed);
  if (values->help) {
    fmt::print("{}", CommandHelp(command));
    return kExitOk;
  }
  PrintNotes(values->notes);
  return std::nullopt;
}

int FinishCommand(const CommandSpec& command, const Status& status) {
  if (status.ok()) return kExitOk;
  fmt::print(stderr, "firesteel {}: {}\n", command.name, status.message());
  return status.code() == StatusCode::kInvalidArgument ? kExitUsage : kExitFailed;
}

Status AsModelFault(const Status& status) {
  return status.code() == StatusCode::kInvalidArgument ? DataCorrupt(status.message()) : status;
}

void PrintNotes(const std::vector<std::string>& notes) {
  for (const std::string& note : notes) fmt::print(stderr, "note: {}\n", note);
}

std::vector<std::string> SpecMethods() {
  std::vector<std::string> names;
  for (const DrafterEntry& entry : Drafters()) names.emplace_back(entry.name);
  return names;
}

Result<EngineOptions> EngineOptionsFrom(const FlagValues& values) {
  std::vector<std::string> notes;
  FS_ASSIGN(EngineOptions options, ReadEngineFlags(values, SpecMethods(), &notes));
  bool spec_given = false;
  for (const char* flag : {"--spec-method", "--speculative-config", "--speculative-algorithm"}) {
    spec_given |= values.Has(flag);
  }
  FS_TRY(UseDemoModel(spec_given, &options));
  if (options.speculation.method == "dspark" && options.speculation.model.empty()) {
    return InvalidArgument("speculation by dspark needs a drafter, expected --spec-model DIR");
  }
  PrintNotes(notes);
  return options;
}

ServerBanner BannerOf(const ModelSummary& summary, const std::string& url) {
  ServerBanner banner;
  banner.model = summary.name;
  banner.url = url;
  banner.spec_method = summary.spec_method;
  banner.spec_tokens = summary.spec_tokens;
  banner.target_bytes = summary.weight_bytes;
  banner.ballast_bytes = summary.ballast_bytes;
  banner.draft_bytes = summary.draft_weight_bytes;
  return banner;
}

}  // namespace firesteel
