// Flags of a command as data: parsed, explained by --help and read from a configuration file by the
// same table.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "firesteel/status.h"

namespace firesteel {

enum class FlagKind {
  kValue,     // --port 8000, --port=8000; the last one counts
  kRepeated,  // --stop a --stop b
  kList,      // --served-model-name a b
  kSwitch,    // --warmup, --no-warmup
};

enum class FlagEffect {
  kUsed,
  kNone,   // known from other servers, means nothing here: accepted, one line says so
  kLater,  // would change results and is not here yet: refused
};

struct FlagSpec {
  std::string name;  // "--port"
  FlagKind kind = FlagKind::kValue;
  std::string value_name;                 // "N"; "" for switches
  std::string default_text;               // as --help shows it
  std::string help;                       // one line; for kNone and kLater the reason
  std::vector<std::string> aliases = {};  // "--model-path", "-p", "-tp"
  FlagEffect effect = FlagEffect::kUsed;
  bool hidden = false;  // left out of --help: planted faults for tests
};

struct CommandSpec {
  std::string name;        // "serve"
  std::string summary;     // one line
  std::string positional;  // "MODEL"; "" when the command takes none
  std::string positional_help;
  std::vector<FlagSpec>
      flags;  // --help and, where `has_config` is set, --config are added by the parser
  bool has_config = true;
};

// What the command line and the configuration file said. Values are text; the readers below turn
// them into numbers and name the flag when they cannot.
class FlagValues {
 public:
  bool Has(std::string_view flag) const { return values_.contains(flag); }
  // The last value given; "" when there is none. Of a switch "true" or "false".
  std::string Text(std::string_view flag) const;
  std::vector<std::string> List(std::string_view flag) const;
  void Set(std::string flag, std::vector<std::string> values) {
    values_[std::move(flag)] = std::move(values);
  }

  // Each leaves *out alone when the flag was not given. kInvalidArgument: "--port is x, expected an
  // integer from 0 to 65535".
  Status ReadInt(std::string_view flag, int64_t lo, int64_t hi, int32_t* out) const;
  Status ReadInt64(std::string_view flag, int64_t lo, int64_t hi, int64_t* out) const;
  Status ReadDouble(std::string_view flag, double lo, double hi, double* out) const;
  Status ReadSwitch(std::string_view flag, bool* out) const;
  Status ReadText(std::string_view flag, std::string* out) const;
  Status ReadChoice(std::string_view flag, const std::vector<std::string>& choices,
                    std::string* out) const;

  std::string positional;          // "" when not given
  bool help = false;               // --help was there; nothing else is checked then
  std::vector<std::string> notes;  // lines for stderr: flags without effect

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
};

// Digits with an optional suffix: k, m, g are powers of 1000, K, M, G (also Ki, KiB, …) powers of
// 1024, as vLLM reads them.
Result<int64_t> ParseCount(std::string_view text);

}  // namespace firesteel
