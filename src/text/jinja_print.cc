// How values look: str(), repr() and json.dumps of Python.
#include <fmt/format.h>
#include <unicode/uchar.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "text/jinja_value.h"

namespace firesteel::jinja {
namespace {

bool IsPrintable(char32_t c) {
  constexpr uint32_t kHidden = U_GC_C_MASK | U_GC_Z_MASK;
  return c == ' ' || (U_GET_GC_MASK(static_cast<UChar32>(c)) & kHidden) == 0;
}

std::string StringRepr(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char32_t quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, static_cast<char>(quote));
  for (const char32_t c : Decode(text)) {
    if (c == quote || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (IsPrintable(c)) {
      AppendUtf8(c, &out);
    } else if (c < 0x100) {
      out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
    } else if (c < 0x10000) {
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    } else {
      out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
    }
  }
  out += static_cast<char>(quote);
  return out;
}

void AppendJsonString(std::string_view text, bool ensure_ascii, std::string* out) {
  *out += '"';
  for (const char32_t c : Decode(text)) {
    switch (c) {
      case '"':
        *out += "\\\"";
        continue;
      case '\\':
        *out += "\\\\";
        continue;
      case '\n':
        *out += "\\n";
        continue;
      case '\r':
        *out += "\\r";
        continue;
      case '\t':
        *out += "\\t";
        continue;
      case '\b':
        *out += "\\b";
        continue;
      case '\f':
        *out += "\\f";
        continue;
      default:
        break;
    }
    const auto u = static_cast<uint32_t>(c);
    if (u < 0x20 || (ensure_ascii && u > 0x7E && u < 0x10000)) {
      *out += fmt::format("\\u{:04x}", u);
    } else if (ensure_ascii && u >= 0x10000) {
      *out += fmt::format("\\u{:04x}\\u{:04x}", 0xD7C0 + (u >> 10), 0xDC00 + (u & 0x3FF));
    } else {
      AppendUtf8(c, out);
    }
  }
  *out += '"';
}

}  // namespace

std::string FloatRepr(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, d, std::chars_format::scientific).ptr;
  const std::string text(buffer, end);  // [-]d[.ddd]e±dd
  const size_t e = text.find('e');
  const int exponent = std::stoi(text.substr(e + 1));
  if (exponent < -4 || exponent >= 16) return text;
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, d, std::chars_format::fixed).ptr;
  std::string out(buffer, fixed);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

std::string ToText(const Value& value) {
  if (const std::string* s = value.AsString()) return *s;
  if (value.IsUndefined()) return "";
  return Repr(value);
}

std::string Repr(const Value& value) {
  if (value.IsUndefined()) return "Undefined";
  if (value.IsNone()) return "None";
  if (const bool* b = value.As<bool>()) return *b ? "True" : "False";
  if (const int64_t* i = value.As<int64_t>()) return std::to_string(*i);
  if (const double* d = value.As<double>()) return FloatRepr(*d);
  if (const std::string* s = value.AsString()) return StringRepr(*s);
  if (const List* list = value.AsList()) {
    std::string out = list->is_tuple ? "(" : "[";
    for (const Value& item : list->items) {
      if (&item != &list->items.front()) out += ", ";
      out += Repr(item);
    }
    if (list->is_tuple && list->items.size() == 1) out += ',';
    return out + (list->is_tuple ? ")" : "]");
  }
  if (const Dict* dict = value.AsDict()) {
    std::string out = "{";
    for (const auto& [key, item] : dict->items()) {
      if (out.size() > 1) out += ", ";
      out += StringRepr(key) + ": " + Repr(item);
    }
    return out + "}";
  }
  return fmt::format("<{}>", value.TypeName());
}

Status AppendJson(const Value& value, const JsonStyle& style, std::string* out, int level) {
  const auto new_line = [&](int at) {
    if (style.indent < 0) return;
    *out += '\n';
    out->append(static_cast<size_t>(style.indent) * static_cast<size_t>(at), ' ');
  };
  if (out->size() > kMaxText) {
    return InvalidArgument(fmt::format("tojson: the text would be longer than {} bytes", kMaxText));
  }
  const char* separator = style.indent < 0 ? ", " : ",";
  if (value.IsNone()) {
    *out += "null";
  } else if (const bool* b = value.As<bool>()) {
    *out += *b ? "true" : "false";
  } else if (const double* d = value.As<double>(); d != nullptr && !std::isfinite(*d)) {
    *out += std::isnan(*d) ? "NaN" : *d < 0 ? "-Infinity" : "Infinity";
  } else if (value.IsNumber()) {
    *out += Repr(value);
  } else if (const std::string* s = value.AsString()) {
    AppendJsonString(*s, style.ensure_ascii, out);
  } else if (const List* list = value.AsList()) {
    *out += '[';
    for (const Value& item : list->items) {
      if (&item != &list->items.front()) *out += separator;
      new_line(level + 1);
      FS_TRY(AppendJson(item, style, out, level + 1));
    }
    if (!list->items.empty()) new_line(level);
    *out += ']';
  } else if (const Dict* dict = value.AsDict()) {
    std::vector<const std::pair<std::string, Value>*> items;
    for (const auto& item : dict->items()) items.push_back(&item);
    if (style.sort_keys) {
      std::sort(items.begin(), items.end(), [](auto* a, auto* b) { return a->first < b->first; });
    }
    *out += '{';
    for (const auto* item : items) {
      if (item != items.front()) *out += separator;
      new_line(level + 1);
      AppendJsonString(item->first, style.ensure_ascii, out);
      *out += ": ";
      FS_TRY(AppendJson(item->second, style, out, level + 1));
    }
    if (!items.empty()) new_line(level);
    *out += '}';
  } else {
    return InvalidArgument(
        fmt::format("tojson: a value of type {} cannot be written as JSON", value.TypeName()));
  }
  return {};
}

}  // namespace firesteel::jinja
