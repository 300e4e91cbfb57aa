#include "server/field_reader.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/utf8.h"

namespace firesteel {
namespace {

constexpr size_t kMaxFoundBytes = 80;
constexpr int64_t kMaxMembers = 1024;
// Members are found by walking an object, so reading one costs the square of its members. This many
// comparisons are about 100 ms.
constexpr int64_t kMaxComparisons = 20'000'000;

std::string Found(const Json& value) {
  if (value.is_array() && value.size() > 8) return fmt::format("an array of {}", value.size());
  if (value.is_object()) return "an object";
  std::string text = DumpJson(value);
  if (text.size() <= kMaxFoundBytes) return text;
  text.resize(kMaxFoundBytes);
  text.resize(text.size() - IncompleteUtf8Tail(text));
  return text + "…";
}

std::string DoubleRange(double lo, double hi) {
  if (hi == std::numeric_limits<double>::max()) return fmt::format("a number of at least {}", lo);
  return fmt::format("a number from {} to {}", lo, hi);
}

// Colons outside strings are members. Depth is checked by ParseJson afterwards, so what is deeper
// is left to it.
bool TooManyMembers(std::string_view text) {
  std::vector<int64_t> members;
  int64_t comparisons = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (members.size() > 256) return false;
      members.push_back(0);
    } else if ((c == '}' || c == ']') && !members.empty()) {
      members.pop_back();
    } else if (c == ':' && !members.empty()) {
      comparisons += members.back();
      if (++members.back() > kMaxMembers || comparisons > kMaxComparisons) return true;
    }
  }
  return false;
}

}  // namespace

const Json* FieldReader::Find(std::string_view name) const {
  for (const auto& [key, value] : object_->get_ref<const Json::object_t&>()) {
    if (key == name) return value.is_null() ? nullptr : &value;
  }
  return nullptr;
}

void FieldReader::FailWith(std::string_view name, std::string message) {
  if (!ok()) return;
  error_.status = 400;
  error_.param = prefix_ + std::string(name);
  error_.message = std::move(message);
}

void FieldReader::Fail(std::string_view name, const Json& found, std::string_view expected) {
  if (ok())
    FailWith(name, fmt::format("{}{} is {}, expected {}", prefix_, name, Found(found), expected));
}

std::string FieldReader::IntRange(int64_t lo, int64_t hi) {
  const bool open_below = lo == std::numeric_limits<int64_t>::min();
  const bool open_above = hi >= std::numeric_limits<int32_t>::max();
  if (open_below && open_above) return "a 64-bit integer";
  if (open_above) return fmt::format("an integer of at least {}", lo);
  return fmt::format("an integer from {} to {}", lo, hi);
}

bool FieldReader::ReadInt(const Json& value, int64_t lo, int64_t hi, int64_t* out) {
  int64_t n = 0;
  if (value.is_number_unsigned()) {
    const auto u = value.get<uint64_t>();
    if (u > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return false;
    n = static_cast<int64_t>(u);
  } else if (value.is_number_integer()) {
    n = value.get<int64_t>();
  } else if (value.is_number_float()) {
    const auto x = value.get<double>();
    if (x != std::trunc(x) || x < -0x1p63 || x >= 0x1p63) return false;
    n = static_cast<int64_t>(x);
  } else {
    return false;
  }
  if (n < lo || n > hi) return false;
  *out = n;
  return true;
}

bool FieldReader::Int(std::string_view name, int64_t lo, int64_t hi, int64_t* out) {
  const Json* value = Find(name);
  if (value == nullptr || !ok()) return false;
  if (ReadInt(*value, lo, hi, out)) return true;
  const bool too_large = value->is_number() && value->get<double>() > static_cast<double>(hi);
  Fail(name, *value,
       too_large ? fmt::format("an integer from {} to {}", lo, hi) : IntRange(lo, hi));
  return false;
}

bool FieldReader::Int(std::string_view name, int64_t lo, int64_t hi, int32_t* out) {
  int64_t n = 0;
  if (!Int(name, lo, std::min<int64_t>(hi, std::numeric_limits<int32_t>::max()), &n)) return false;
  *out = static_cast<int32_t>(n);
  return true;
}

bool FieldReader::Double(std::string_view name, double lo, double hi, double* out) {
  const Json* value = Find(name);
  if (value == nullptr || !ok()) return false;
  const double x = value->is_number() ? value->get<double>() : std::nan("");
  if (x >= lo && x <= hi) {
    *out = x;
    return true;
  }
  Fail(name, *value, DoubleRange(lo, hi));
  return false;
}

bool FieldReader::Bool(std::string_view name, bool* out) {
  const Json* value = Find(name);
  if (value == nullptr || !ok()) return false;
  if (!value->is_boolean()) {
    Fail(name, *value, "true or false");
    return false;
  }
  *out = value->get<bool>();
  return true;
}

bool FieldReader::String(std::string_view name, std::string* out) {
  const Json* value = Find(name);
  if (value == nullptr || !ok()) return false;
  if (!value->is_string()) {
    Fail(name, *value, "a string");
    return false;
  }
  *out = value->get_ref<const std::string&>();
  return true;
}

bool FieldReader::IntList(std::string_view name, int64_t lo, int64_t hi,
                          std::vector<int32_t>* out) {
  const Json* list = Array(name);
  if (list == nullptr) return false;
  std::vector<int32_t> read;
  read.reserve(list->size());
  for (const Json& element : *list) {
    int64_t n = 0;
    if (!ReadInt(element, lo, hi, &n)) {
      Fail(fmt::format("{}[{}]", name, read.size()), element, IntRange(lo, hi));
      return false;
    }
    read.push_back(static_cast<int32_t>(n));
  }
  *out = std::move(read);
  return true;
}

const Json* FieldReader::Object(std::string_view name) {
  const Json* value = Find(name);
  if (value == nullptr || !ok()) return nullptr;
  if (value->is_object()) return value;
  Fail(name, *value, "an object");
  return nullptr;
}

const Json* FieldReader::Array(std::string_view name) {
  const Json* value = Find(name);
  if (value == nullptr || !ok()) return nullptr;
  if (value->is_array()) return value;
  Fail(name, *value, "an array");
  return nullptr;
}

ApiError ParseBody(std::string_view body, Json* object) {
  if (TooManyMembers(body)) {
    return {.status = 400,
            .message = fmt::format("request body: one of its objects has more than {} members, or "
                                   "too many of them have hundreds",
                                   kMaxMembers),
            .param = "",
            .code = ""};
  }
  Result<Json> parsed = ParseJson(body, "request body");
  if (!parsed.ok()) return ErrorFromStatus(parsed.status());
  *object = *std::move(parsed);
  if (object->is_object()) return {};
  return {.status = 400,
          .message = "request body: is " + Found(*object) + ", expected an object",
          .param = "",
          .code = ""};
}

}  // namespace firesteel
