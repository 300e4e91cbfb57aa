#include <fmt/format.h>

#include <algorithm>

#include "text/jinja_filters.h"

namespace firesteel::jinja {
namespace {

// Sorts and compares: text without regard to case unless asked.
Result<Value> SortKey(const Value& item, const Value* attribute, bool case_sensitive,
                      Budget* budget) {
  Value key = item;
  if (attribute && !attribute->IsNone()) {
    FS_ASSIGN(key, AttributePath(item, *attribute, budget));
  }
  if (!case_sensitive && key.AsString()) return MakeText(ToLower(*key.AsString()), budget);
  return key;
}

struct Keyed {
  Value key;
  Value item;
};

Status SortKeyed(std::vector<Keyed>* items, bool reverse, Budget* budget) {
  // A comparison that fails must not reach std::stable_sort; the first failure is kept and
  // everything after it is equal.
  Status failure;
  const auto less = [&](const Keyed& a, const Keyed& b) {
    if (!failure.ok()) return false;
    Status spent =
        budget->Spend(1 + static_cast<size_t>(std::min(a.key.weight(), b.key.weight())) / 16);
    const Result<int> order = spent.ok() ? Compare(a.key, b.key) : Result<int>(spent);
    if (!order.ok()) failure = order.status();
    return order.ok() && (reverse ? *order > 0 : *order < 0);
  };
  std::stable_sort(items->begin(), items->end(), less);
  return failure;
}

Result<Value> ItemsOf(std::vector<Keyed> items) {
  std::vector<Value> out;
  for (Keyed& keyed : items) out.push_back(std::move(keyed.item));
  return Value::MakeList(std::move(out));
}

Result<Value> Length(const Value& operand, const Bound&, Budget* budget) {
  if (const std::string* text = operand.AsString()) {
    FS_TRY(budget->Spend(text->size() / 16));
    const auto starts = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
    return Value(static_cast<int64_t>(std::count_if(text->begin(), text->end(), starts)));
  }
  if (const List* list = operand.AsList()) return Value(static_cast<int64_t>(list->items.size()));
  if (const Dict* dict = operand.AsDict()) return Value(static_cast<int64_t>(dict->items().size()));
  if (operand.IsUndefined()) return Value(int64_t{0});
  return InvalidArgument(fmt::format("length: '{}' has none", operand.TypeName()));
}

Result<Value> Join(const Value& operand, const Bound& args, Budget* budget) {
  FS_ASSIGN(const std::vector<Value> items, Iterate(operand, budget));
  std::string separator;
  if (args[0]) {
    FS_ASSIGN(separator, Print(*args[0], budget));
  }
  std::string out;
  for (const Value& item : items) {
    Value part = item;
    if (args[1] && !args[1]->IsNone()) {
      FS_ASSIGN(part, AttributePath(item, *args[1], budget));
    }
    FS_ASSIGN(const std::string text, Print(part, budget));
    if (&item != &items.front()) out += separator;
    out += text;
    if (out.size() > kMaxText) break;
  }
  return MakeText(std::move(out), budget);
}

Result<Value> ToList(const Value& operand, const Bound&, Budget* budget) {
  FS_ASSIGN(std::vector<Value> items, Iterate(operand, budget));
  return Value::MakeList(std::move(items));
}

Result<Value> First(const Value& operand, const Bound&, Budget* budget) {
  FS_ASSIGN(const std::vector<Value> items, Iterate(operand, budget));
  return items.empty() ? Value::MakeUndefined("first: the sequence is empty") : items.front();
}

Result<Value> Last(const Value& operand, const Bound&, Budget* budget) {
  FS_ASSIGN(const std::vector<Value> items, Iterate(operand, budget));
  return items.empty() ? Value::MakeUndefined("last: the sequence is empty") : items.back();
}

Result<Value> Reverse(const Value& operand, const Bound&, Budget* budget) {
  if (operand.AsString())
    return GetSlice(operand, Value(None{}), Value(None{}), Value(int64_t{-1}), budget);
  FS_ASSIGN(std::vector<Value> items, Iterate(operand, budget));
  std::reverse(items.begin(), items.end());
  return Value::MakeList(std::move(items));
}

Result<Value> Items(const Value& operand, const Bound&, Budget* budget) {
  if (operand.IsUndefined()) return Value::MakeList({});
  if (!operand.AsDict())
    return InvalidArgument(fmt::format("items: '{}' given, expected 'dict'", operand.TypeName()));
  return CallMethod({operand, "items"}, {}, budget);
}

Result<Value> DictSort(const Value& operand, const Bound& args, Budget* budget) {
  if (!operand.AsDict())
    return InvalidArgument(
        fmt::format("dictsort: '{}' given, expected 'dict'", operand.TypeName()));
  const bool case_sensitive = args[0] && args[0]->Truth();
  const std::string* by = args[1] ? args[1]->AsString() : nullptr;
  if (args[1] && (by == nullptr || (*by != "key" && *by != "value"))) {
    return InvalidArgument("dictsort: 'by' is neither 'key' nor 'value'");
  }
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : operand.AsDict()->items()) {
    FS_TRY(budget->Spend(8));
    FS_ASSIGN(Value pair, Value::MakeList({Value(key), value}, true));
    const Value& subject = by && *by == "value" ? value : pair.AsList()->items[0];
    FS_ASSIGN(Value sort_key, SortKey(subject, nullptr, case_sensitive, budget));
    keyed.push_back({std::move(sort_key), std::move(pair)});
  }
  FS_TRY(SortKeyed(&keyed, args[2] && args[2]->Truth(), budget));
  return ItemsOf(std::move(keyed));
}

Result<Value> Sort(const Value& operand, const Bound& args, Budget* budget) {
  FS_ASSIGN(const std::vector<Value> items, Iterate(operand, budget));
  std::vector<Keyed> keyed;
  for (const Value& item : items) {
    FS_ASSIGN(Value key, SortKey(item, args[2], args[1] && args[1]->Truth(), budget));
    keyed.push_back({std::move(key), item});
  }
  FS_TRY(SortKeyed(&keyed, args[0] && args[0]->Truth(), budget));
  return ItemsOf(std::move(keyed));
}

Result<Value> Unique(const Value& operand, const Bound& args, Budget* budget) {
  FS_ASSIGN(const std::vector<Value> items, Iterate(operand, budget));
  std::vector<Value> seen, out;
  for (const Value& item : items) {
    FS_ASSIGN(Value key, SortKey(item, args[1], args[0] && args[0]->Truth(), budget));
    bool is_new = true;
    for (const Value& other : seen) {
      FS_TRY(budget->Spend(1));
      FS_ASSIGN(const bool equal, EqualsWithin(key, other, budget));
      is_new = is_new && !equal;
    }
    if (!is_new) continue;
    seen.push_back(std::move(key));
    out.push_back(item);
  }
  return Value::MakeList(std::move(out));
}

Result<Value> Extreme(const Value& operand, int wanted, Budget* budget) {
  FS_ASSIGN(const std::vector<Value> items, Iterate(operand, budget));
  Value best = Value::MakeUndefined("the sequence is empty"), best_key;
  for (const Value& item : items) {
    FS_ASSIGN(Value key, SortKey(item, nullptr, false, budget));
    if (&item != &items.front()) {
      FS_ASSIGN(const int order, Compare(key, best_key));
      if (order * wanted <= 0) continue;
    }
    best = item;
    best_key = std::move(key);
  }
  return best;
}

Result<Value> Min(const Value& operand, const Bound&, Budget* budget) {
  return Extreme(operand, -1, budget);
}
Result<Value> Max(const Value& operand, const Bound&, Budget* budget) {
  return Extreme(operand, 1, budget);
}

Result<Value> Sum(const Value& operand, const Bound& args, Budget* budget) {
  FS_ASSIGN(const std::vector<Value> items, Iterate(operand, budget));
  Value total = args[1] ? *args[1] : Value(int64_t{0});
  for (const Value& item : items) {
    Value term = item;
    if (args[0] && !args[0]->IsNone()) {
      FS_ASSIGN(term, AttributePath(item, *args[0], budget));
    }
    FS_ASSIGN(total, BinaryOperator("+", total, term, budget));
  }
  return total;
}

constexpr FilterEntry kListFilters[] = {
    {"length", {}, &Length},
    {"count", {}, &Length},
    {"join", {"d", "attribute"}, &Join},
    {"list", {}, &ToList},
    {"first", {}, &First},
    {"last", {}, &Last},
    {"reverse", {}, &Reverse},
    {"items", {}, &Items},
    {"dictsort", {"case_sensitive", "by", "reverse"}, &DictSort},
    {"sort", {"reverse", "case_sensitive", "attribute"}, &Sort},
    {"unique", {"case_sensitive", "attribute"}, &Unique},
    {"min", {}, &Min},
    {"max", {}, &Max},
    {"sum", {"attribute", "start"}, &Sum},
};

Result<Value> Map(const std::vector<Value>& items, const Arguments& arguments, Budget* budget) {
  std::vector<Value> out;
  if (!arguments.positional.empty()) {
    FS_ASSIGN(const std::string* filter, TextArgument("map", &arguments.positional[0]));
    const Arguments rest{{arguments.positional.begin() + 1, arguments.positional.end()},
                         arguments.named};
    for (const Value& item : items) {
      if (*filter == "map") return InvalidArgument("map: cannot be mapped itself");
      FS_ASSIGN(Value value, ApplyFilter(*filter, item, rest, budget));
      out.push_back(std::move(value));
    }
    return Value::MakeList(std::move(out));
  }
  FS_ASSIGN(const Bound args, Bind("map", arguments, {"attribute", "default"}));
  if (!args[0]) return InvalidArgument("map: neither a filter nor an attribute given");
  for (const Value& item : items) {
    FS_ASSIGN(Value value, AttributePath(item, *args[0], budget));
    if (value.IsUndefined() && args[1]) value = *args[1];
    out.push_back(std::move(value));
  }
  return Value::MakeList(std::move(out));
}

}  // namespace

std::span<const FilterEntry> ListFilters() { return kListFilters; }

bool IsVariadicFilter(std::string_view name) {
  return name == "map" || name == "select" || name == "reject" || name == "selectattr" ||
         name == "rejectattr";
}

Result<Value> AttributePath(const Value& object, const Value& path, Budget* budget) {
  const std::string* text = path.AsString();
  if (text == nullptr) return GetItem(object, path, budget);
  Value value = object;
  size_t at = 0;
  while (true) {
    FS_TRY(budget->Spend(1));
    const size_t dot = std::min(text->find('.', at), text->size());
    const std::string part = text->substr(at, dot - at);
    const bool is_index = !part.empty() && part.size() < 10 &&
                          part.find_first_not_of("0123456789") == std::string::npos;
    FS_ASSIGN(value,
              GetItem(value, is_index ? Value(int64_t{std::stoll(part)}) : Value(part), budget));
    if (dot == text->size()) return value;
    at = dot + 1;
  }
}

Result<Value> ApplyVariadicFilter(std::string_view name, const Value& operand,
                                  const Arguments& arguments, Budget* budget) {
  FS_ASSIGN(const std::vector<Value> items, Iterate(operand, budget));
  if (name == "map") return Map(items, arguments, budget);
  const bool by_attribute = name.ends_with("attr");
  const bool keep = name.starts_with("select");
  const size_t skip = by_attribute ? 1 : 0;
  const auto& given = arguments.positional;
  if (given.size() < skip) return InvalidArgument(fmt::format("{}: no attribute given", name));
  const std::string* test = nullptr;
  if (given.size() > skip) {
    FS_ASSIGN(test, TextArgument(name, &given[skip]));
  }
  Arguments rest{{}, arguments.named};
  if (given.size() > skip + 1) rest.positional.assign(given.begin() + skip + 1, given.end());
  std::vector<Value> out;
  for (const Value& item : items) {
    Value subject = item;
    if (by_attribute) {
      FS_ASSIGN(subject, AttributePath(item, given[0], budget));
    }
    bool holds = subject.Truth();
    if (test != nullptr) {
      FS_ASSIGN(holds, ApplyTest(*test, subject, rest, budget));
    }
    if (holds == keep) out.push_back(item);
  }
  return Value::MakeList(std::move(out));
}

}  // namespace firesteel::jinja
