#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "cli/command_line.h"

namespace firesteel {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kHelpColumn = 6;

// `text` wrapped at spaces, every line behind `indent` spaces.
std::string Wrap(const std::string& text, size_t indent) {
  std::istringstream words(text);
  std::string out;
  std::string line(indent, ' ');
  for (std::string word; words >> word;) {
    const bool is_first = line.size() == indent;
    if (!is_first && line.size() + 1 + word.size() > kColumns) {
      out += line + '\n';
      line.assign(indent, ' ');
      line += word;
      continue;
    }
    line += (is_first ? "" : " ") + word;
  }
  return out + line + '\n';
}

std::string Names(const FlagSpec& flag) {
  std::string names = flag.name;
  if (flag.kind == FlagKind::kSwitch) names += ", --no-" + flag.name.substr(2);
  for (const std::string& alias : flag.aliases) names += ", " + alias;
  if (!flag.value_name.empty()) names += " " + flag.value_name;
  return names;
}

std::string Entries(const CommandSpec& command, FlagEffect effect, std::string_view heading) {
  std::string out;
  for (const FlagSpec& flag : command.flags) {
    if (flag.effect != effect || flag.hidden) continue;
    std::string help = flag.help;
    if (!flag.default_text.empty()) help += fmt::format(" [default: {}]", flag.default_text);
    out += fmt::format("  {}\n{}", Names(flag), Wrap(help, kHelpColumn));
  }
  return out.empty() ? "" : fmt::format("\n{}:\n{}", heading, out);
}

}  // namespace

std::string CommandHelp(const CommandSpec& caller_command) {
  const CommandSpec command = WithConfigFlag(caller_command);
  std::string out = fmt::format("usage: firesteel {} [FLAGS]{}\n\n{}", command.name,
                                command.positional.empty() ? "" : " [" + command.positional + "]",
                                Wrap(command.summary + ".", 0));
  if (!command.positional.empty()) {
    out +=
        fmt::format("\n  {}\n{}", command.positional, Wrap(command.positional_help, kHelpColumn));
  }
  out += Entries(command, FlagEffect::kUsed, "Flags");
  out += Entries(command, FlagEffect::kNone,
                 "Accepted for other servers' command lines, without effect");
  out += Entries(command, FlagEffect::kLater, "Known, but refused: not in this version");
  return out;
}

}  // namespace firesteel
