// The table of filters, in two parts.
#pragma once

#include <span>
#include <string_view>

#include "text/jinja_library.h"

namespace firesteel::jinja {

struct FilterEntry {
  std::string_view name;
  std::string_view parameters[4];  // as many as are not empty
  Result<Value> (*apply)(const Value& operand, const Bound& args, Budget* budget);
};

std::span<const FilterEntry> ListFilters();

// map, select, reject, selectattr, rejectattr: they pass arguments on to other filters and tests.
bool IsVariadicFilter(std::string_view name);
Result<Value> ApplyVariadicFilter(std::string_view name, const Value& operand,
                                  const Arguments& arguments, Budget* budget);

// Elements that Iterate gives. The attribute may be a path: "function.name", "0.id".
Result<Value> AttributePath(const Value& object, const Value& path, Budget* budget);

}  // namespace firesteel::jinja
