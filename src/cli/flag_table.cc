#include "cli/flag_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace firesteel {

std::string FlagValues::Text(std::string_view flag) const {
  const auto it = values_.find(flag);
  return it == values_.end() || it->second.empty() ? "" : it->second.back();
}

std::vector<std::string> FlagValues::List(std::string_view flag) const {
  const auto it = values_.find(flag);
  return it == values_.end() ? std::vector<std::string>() : it->second;
}

Status FlagValues::ReadInt64(std::string_view flag, int64_t lo, int64_t hi, int64_t* out) const {
  if (!Has(flag)) return {};
  const Result<int64_t> value = ParseCount(Text(flag));
  if (!value.ok() || *value < lo || *value > hi) {
    return InvalidArgument(
        fmt::format("{} is {}, expected an integer from {} to {}", flag, Text(flag), lo, hi));
  }
  *out = *value;
  return {};
}

Status FlagValues::ReadInt(std::string_view flag, int64_t lo, int64_t hi, int32_t* out) const {
  int64_t value = *out;
  FS_TRY(ReadInt64(flag, lo, std::min<int64_t>(hi, INT32_MAX), &value));
  *out = static_cast<int32_t>(value);
  return {};
}

Status FlagValues::ReadDouble(std::string_view flag, double lo, double hi, double* out) const {
  if (!Has(flag)) return {};
  const std::string text = Text(flag);
  double value = 0;
  const auto r = std::from_chars(text.data(), text.data() + text.size(), value);
  if (r.ec != std::errc() || r.ptr != text.data() + text.size() || !(value >= lo && value <= hi)) {
    return InvalidArgument(
        fmt::format("{} is {}, expected a number from {} to {}", flag, text, lo, hi));
  }
  *out = value;
  return {};
}

Status FlagValues::ReadSwitch(std::string_view flag, bool* out) const {
  if (Has(flag)) *out = Text(flag) == "true";
  return {};
}

Status FlagValues::ReadText(std::string_view flag, std::string* out) const {
  if (Has(flag)) *out = Text(flag);
  return {};
}

Status FlagValues::ReadChoice(std::string_view flag, const std::vector<std::string>& choices,
                              std::string* out) const {
  if (!Has(flag)) return {};
  const std::string text = Text(flag);
  if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
    return InvalidArgument(
        fmt::format("{} is {}, expected one of {}", flag, text, fmt::join(choices, ", ")));
  }
  *out = text;
  return {};
}

Result<int64_t> ParseCount(std::string_view text) {
  const auto error = [&] { return InvalidArgument(fmt::format("{} is not a count", text)); };
  int64_t value = 0;
  const auto r = std::from_chars(text.data(), text.data() + text.size(), value);
  if (r.ec != std::errc()) return error();
  std::string_view suffix(r.ptr, static_cast<size_t>(text.data() + text.size() - r.ptr));
  if (suffix.empty()) return value;
  constexpr std::string_view kDecimal = "kmgt";
  constexpr std::string_view kBinary = "KMGT";
  int64_t base = 1000;
  size_t power = kDecimal.find(suffix.front());
  if (power == std::string_view::npos) {
    base = 1024;
    power = kBinary.find(suffix.front());
    if (power == std::string_view::npos) return error();
    const std::string_view unit = suffix.substr(1);
    if (!unit.empty() && unit != "i" && unit != "iB" && unit != "B") return error();
  } else if (suffix.size() > 1) {
    return error();
  }
  for (size_t i = 0; i <= power; ++i) {
    if (value > INT64_MAX / base || value < INT64_MIN / base) return error();
    value *= base;
  }
  return value;
}

}  // namespace firesteel
