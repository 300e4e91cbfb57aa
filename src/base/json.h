// JSON for small things (configs, requests, results): nlohmann's ordered_json, with its exceptions
// kept in json.cc.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "firesteel/status.h"

namespace firesteel {

using Json = nlohmann::ordered_json;

// `where` names the source in the message ("models/demo/config.json", "request body"). Refuses
// invalid UTF-8, trailing bytes and nesting deeper than 256.
Result<Json> ParseJson(std::string_view text, std::string_view where);
// Never throws: invalid UTF-8 in strings is replaced by U+FFFD. indent < 0: one line.
std::string DumpJson(const Json& json, int indent = -1);

// Typed reads of `object[key]`. Absent or null gives the default (or nullopt); a wrong type gives
// kInvalidArgument
// "<where>: <key> is <found>, expected <type>". Numbers out of range are errors, 3.0 is an
// integer, 3.5 is not.
Result<std::optional<int64_t>> GetInt(const Json& object, std::string_view key,
                                      std::string_view where);
Result<std::optional<double>> GetDouble(const Json& object, std::string_view key,
                                        std::string_view where);
Result<std::optional<bool>> GetBool(const Json& object, std::string_view key,
                                    std::string_view where);
Result<std::optional<std::string>> GetString(const Json& object, std::string_view key,
                                             std::string_view where);
Result<std::optional<std::vector<int64_t>>> GetIntList(const Json& object, std::string_view key,
                                                       std::string_view where);
// Required integer within [lo, hi].
Result<int64_t> RequireInt(const Json& object, std::string_view key, int64_t lo, int64_t hi,
                           std::string_view where);

}  // namespace firesteel
