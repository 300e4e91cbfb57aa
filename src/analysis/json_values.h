// JSON as benchmark tools write it: several values in one file, one after the other or in an array,
// and Infinity and NaN as bare words.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "firesteel/status.h"

namespace firesteel {

struct JsonAt {
  Json value;        // an object
  int32_t line = 0;  // where it begins, 1-based
};

// The objects of a file: one, several with or without anything between them, or an array of them.
// A byte order mark is skipped. Bare Infinity, -Infinity and NaN become the strings "Infinity",
// "-Infinity" and "NaN". kInvalidArgument names the line.
Result<std::vector<JsonAt>> ParseJsonValues(std::string_view text, std::string_view where);

// `value` as text, one line, with the three words bare again unless `strict`.
std::string DumpToolJson(const Json& value, bool strict);

}  // namespace firesteel
