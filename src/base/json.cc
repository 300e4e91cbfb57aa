#include "base/json.h"

#include <fmt/format.h>

#include <cmath>
#include <exception>

namespace firesteel {
namespace {

constexpr int kMaxDepth = 256;

// Counted before parsing, so that no document however deep reaches code that might recurse.
// Brackets inside strings do not count; what is no JSON at all is left to the parser.
bool TooDeep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

// nlohmann's messages begin with "[json.exception.parse_error.101] ".
std::string_view WithoutTag(std::string_view message) {
  const size_t end = message.find("] ");
  return message.starts_with('[') && end != std::string_view::npos ? message.substr(end + 2)
                                                                   : message;
}

std::string_view TypeName(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    default:
      return "a number";
  }
}

// What was found, for a message: numbers by value, the rest by type.
std::string Found(const Json& value) {
  return value.is_number() ? DumpJson(value) : std::string(TypeName(value));
}

Status WrongType(std::string_view where, std::string_view key, const Json& found,
                 std::string_view expected) {
  return InvalidArgument(
      fmt::format("{}: {} is {}, expected {}", where, key, Found(found), expected));
}

// The value of `key`, or null when absent or null.
Result<const Json*> Find(const Json& object, std::string_view key, std::string_view where) {
  if (!object.is_object()) {
    return InvalidArgument(
        fmt::format("{}: is {}, expected an object with {}", where, Found(object), key));
  }
  for (const auto& [name, value] : object.get_ref<const Json::object_t&>()) {
    if (name == key) return value.is_null() ? nullptr : &value;
  }
  return nullptr;
}

std::optional<int64_t> ToInt(const Json& value) {
  if (value.is_number_unsigned()) {
    const uint64_t n = *value.get_ptr<const Json::number_unsigned_t*>();
    if (n > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<int64_t>(n);
  }
  if (value.is_number_integer()) return *value.get_ptr<const Json::number_integer_t*>();
  if (value.is_number_float()) {
    const double x = *value.get_ptr<const Json::number_float_t*>();
    // 2^63 is a float64, INT64_MAX is not: hence < on one side and >= on the other.
    if (x == std::trunc(x) && x >= -0x1p63 && x < 0x1p63) return static_cast<int64_t>(x);
  }
  return std::nullopt;
}

}  // namespace

Result<Json> ParseJson(std::string_view text, std::string_view where) {
  if (TooDeep(text)) {
    return InvalidArgument(
        fmt::format("{}: JSON is nested deeper than {} levels, expected fewer", where, kMaxDepth));
  }
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const std::exception& e) {
    // The parser quotes the bytes it last read, which need not be UTF-8.
    const std::string what = DumpJson(Json(std::string(WithoutTag(e.what()))));
    return InvalidArgument(fmt::format("{}: is not valid JSON: {}", where,
                                       std::string_view(what).substr(1, what.size() - 2)));
  }
}

std::string DumpJson(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Result<std::optional<int64_t>> GetInt(const Json& object, std::string_view key,
                                      std::string_view where) {
  FS_ASSIGN(const Json* value, Find(object, key, where));
  if (value == nullptr) return std::optional<int64_t>();
  const std::optional<int64_t> n = ToInt(*value);
  if (!n) return WrongType(where, key, *value, "a 64-bit integer");
  return n;
}

Result<std::optional<double>> GetDouble(const Json& object, std::string_view key,
                                        std::string_view where) {
  FS_ASSIGN(const Json* value, Find(object, key, where));
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number()) return WrongType(where, key, *value, "a number");
  return std::optional<double>(value->get<double>());
}

Result<std::optional<bool>> GetBool(const Json& object, std::string_view key,
                                    std::string_view where) {
  FS_ASSIGN(const Json* value, Find(object, key, where));
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) return WrongType(where, key, *value, "a boolean");
  return std::optional<bool>(value->get<bool>());
}

Result<std::optional<std::string>> GetString(const Json& object, std::string_view key,
                                             std::string_view where) {
  FS_ASSIGN(const Json* value, Find(object, key, where));
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return WrongType(where, key, *value, "a string");
  return std::optional<std::string>(value->get_ref<const std::string&>());
}

Result<std::optional<std::vector<int64_t>>> GetIntList(const Json& object, std::string_view key,
                                                       std::string_view where) {
  FS_ASSIGN(const Json* value, Find(object, key, where));
  if (value == nullptr) return std::optional<std::vector<int64_t>>();
  if (!value->is_array()) return WrongType(where, key, *value, "an array of integers");
  std::vector<int64_t> list;
  list.reserve(value->size());
  for (const Json& element : *value) {
    const std::optional<int64_t> n = ToInt(element);
    if (!n) {
      return WrongType(where, fmt::format("{}[{}]", key, list.size()), element, "a 64-bit integer");
    }
    list.push_back(*n);
  }
  return std::optional<std::vector<int64_t>>(std::move(list));
}

Result<int64_t> RequireInt(const Json& object, std::string_view key, int64_t lo, int64_t hi,
                           std::string_view where) {
  FS_ASSIGN(const std::optional<int64_t> n, GetInt(object, key, where));
  if (!n) {
    return InvalidArgument(
        fmt::format("{}: {} is missing, expected an integer from {} to {}", where, key, lo, hi));
  }
  if (*n < lo || *n > hi) {
    return InvalidArgument(
        fmt::format("{}: {} is {}, expected an integer from {} to {}", where, key, *n, lo, hi));
  }
  return *n;
}

}  // namespace firesteel
