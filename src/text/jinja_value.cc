#include "text/jinja_value.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"

namespace firesteel::jinja {
namespace {

// A namespace in a container, or in itself, could make a cycle that is never freed.
Status CheckMember(const Value& value, int* depth, int64_t* weight) {
  if (value.AsNamespace() != nullptr) {
    return InvalidArgument("a namespace cannot be a member of a list, dict or namespace");
  }
  *depth = std::max(*depth, value.depth() + 1);
  if (*depth > kMaxDepth) {
    return InvalidArgument(fmt::format("values are nested deeper than {}", kMaxDepth));
  }
  *weight += value.weight();
  if (*weight > kMaxWeight) {
    return InvalidArgument(fmt::format("a list or dict would hold more than {} bytes", kMaxWeight));
  }
  return {};
}

}  // namespace

const Value* Dict::Find(const std::string& key) const {
  const auto it = index_.find(key);
  return it == index_.end() ? nullptr : &items_[it->second].second;
}

void Dict::Set(std::string key, Value value) {
  const auto [it, is_new] = index_.emplace(key, items_.size());
  if (is_new) {
    items_.emplace_back(std::move(key), std::move(value));
  } else {
    items_[it->second].second = std::move(value);
  }
}

Value Value::MakeUndefined(std::string name) {
  Value value;
  value.data_ = Undefined{std::make_shared<const std::string>(std::move(name))};
  return value;
}

Result<Value> Value::MakeList(std::vector<Value> items, bool is_tuple) {
  Value value;
  for (const Value& item : items) FS_TRY(CheckMember(item, &value.depth_, &value.weight_));
  value.data_ = std::make_shared<const List>(List{std::move(items), is_tuple});
  return value;
}

Result<Value> Value::MakeDict(Dict dict) {
  Value value;
  for (const auto& [key, item] : dict.items()) {
    value.weight_ += static_cast<int64_t>(key.size());
    FS_TRY(CheckMember(item, &value.depth_, &value.weight_));
  }
  value.data_ = std::make_shared<const Dict>(std::move(dict));
  return value;
}

const std::string* Value::AsString() const {
  const StringPtr* p = As<StringPtr>();
  return p ? p->get() : nullptr;
}

const List* Value::AsList() const {
  const ListPtr* p = As<ListPtr>();
  return p ? p->get() : nullptr;
}

const Dict* Value::AsDict() const {
  const DictPtr* p = As<DictPtr>();
  return p ? p->get() : nullptr;
}

Namespace* Value::AsNamespace() const {
  const NamespacePtr* p = As<NamespacePtr>();
  return p ? p->get() : nullptr;
}

const Method* Value::AsMethod() const {
  const MethodPtr* p = As<MethodPtr>();
  return p ? p->get() : nullptr;
}

int64_t Value::weight() const {
  if (const std::string* s = AsString()) return 8 + static_cast<int64_t>(s->size());
  return weight_;
}

std::optional<int64_t> Value::AsInteger() const {
  if (const bool* b = As<bool>()) return *b ? 1 : 0;
  if (const int64_t* i = As<int64_t>()) return *i;
  return std::nullopt;
}

double Value::ToDouble() const {
  if (const double* d = As<double>()) return *d;
  return static_cast<double>(AsInteger().value_or(0));
}

bool Value::Truth() const {
  if (IsNumber()) return ToDouble() != 0;
  if (const std::string* s = AsString()) return !s->empty();
  if (const List* l = AsList()) return !l->items.empty();
  if (const Dict* d = AsDict()) return !d->items().empty();
  return !IsUndefined() && !IsNone();
}

const char* Value::TypeName() const {
  if (IsUndefined()) return "Undefined";
  if (IsNone()) return "NoneType";
  if (As<bool>()) return "bool";
  if (As<int64_t>()) return "int";
  if (As<double>()) return "float";
  if (AsString()) return "str";
  if (const List* l = AsList()) return l->is_tuple ? "tuple" : "list";
  if (AsDict()) return "dict";
  if (AsNamespace()) return "Namespace";
  return As<Macro>() ? "Macro" : "function";
}

bool Equals(const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) {
    const auto i = a.AsInteger(), j = b.AsInteger();
    return i && j ? *i == *j : a.ToDouble() == b.ToDouble();
  }
  if (a.AsString() && b.AsString()) return *a.AsString() == *b.AsString();
  if (a.AsList() && b.AsList()) {
    const List &x = *a.AsList(), &y = *b.AsList();
    return x.is_tuple == y.is_tuple &&
           std::equal(x.items.begin(), x.items.end(), y.items.begin(), y.items.end(), Equals);
  }
  if (a.AsDict() && b.AsDict()) {
    const Dict &x = *a.AsDict(), &y = *b.AsDict();
    if (x.items().size() != y.items().size()) return false;
    return std::all_of(x.items().begin(), x.items().end(), [&](const auto& item) {
      const Value* other = y.Find(item.first);
      return other != nullptr && Equals(item.second, *other);
    });
  }
  if (a.AsNamespace() || b.AsNamespace()) return a.AsNamespace() == b.AsNamespace();
  return (a.IsNone() && b.IsNone()) || (a.IsUndefined() && b.IsUndefined());
}

Result<int> Compare(const Value& a, const Value& b) {
  const auto order = [](const auto& x, const auto& y) { return x < y ? -1 : y < x ? 1 : 0; };
  if (a.IsNumber() && b.IsNumber()) {
    const auto i = a.AsInteger(), j = b.AsInteger();
    return i && j ? order(*i, *j) : order(a.ToDouble(), b.ToDouble());
  }
  // Bytes of UTF-8 sort as code points do.
  if (a.AsString() && b.AsString()) return order(*a.AsString(), *b.AsString());
  if (a.AsList() && b.AsList() && a.AsList()->is_tuple == b.AsList()->is_tuple) {
    const auto &x = a.AsList()->items, &y = b.AsList()->items;
    for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!Equals(x[i], y[i])) return Compare(x[i], y[i]);
    }
    return order(x.size(), y.size());
  }
  return InvalidArgument(
      fmt::format("'{}' and '{}' cannot be ordered", a.TypeName(), b.TypeName()));
}

Result<Value> FromJson(const Json& json, int depth) {
  if (depth > kMaxDepth) {
    return InvalidArgument(fmt::format("values are nested deeper than {}", kMaxDepth));
  }
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value(json.get<bool>());
    case Json::value_t::number_integer:
      return Value(json.get<int64_t>());
    case Json::value_t::number_unsigned: {
      const auto u = json.get<uint64_t>();
      if (u <= uint64_t{INT64_MAX}) return Value(static_cast<int64_t>(u));
      return Value(static_cast<double>(u));
    }
    case Json::value_t::number_float:
      return Value(json.get<double>());
    case Json::value_t::string:
      return Value(ReplaceInvalidUtf8(json.get_ref<const std::string&>()));
    case Json::value_t::array: {
      std::vector<Value> items;
      for (const Json& item : json) {
        FS_ASSIGN(Value value, FromJson(item, depth + 1));
        items.push_back(std::move(value));
      }
      return Value::MakeList(std::move(items));
    }
    case Json::value_t::object: {
      Dict dict;
      for (const auto& [key, item] : json.items()) {
        FS_ASSIGN(Value value, FromJson(item, depth + 1));
        dict.Set(ReplaceInvalidUtf8(key), std::move(value));
      }
      return Value::MakeDict(std::move(dict));
    }
    default:
      return Value(None{});
  }
}

std::u32string Decode(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    char32_t c = length == 1 ? lead : lead & (0x7Fu >> length);
    for (size_t k = 1; k < length && i + k < text.size(); ++k) {
      c = c << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3Fu);
    }
    out.push_back(c);
    i += length;
  }
  return out;
}

std::string Encode(std::u32string_view text) {
  std::string out;
  for (const char32_t c : text) AppendUtf8(c, &out);
  return out;
}

}  // namespace firesteel::jinja
