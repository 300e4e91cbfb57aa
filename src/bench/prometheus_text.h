// The samples of a page of metrics in Prometheus' text format.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/function_ref.h"

namespace firesteel {

struct PrometheusSample {
  std::string_view name;
  std::string_view labels;  // between the braces, as written; "" without any
  double value = 0;

  // The value of `label="…"`, "" when absent.
  std::string_view Label(std::string_view label) const;
};

// In the order of the text, whose views a sample holds. Lines that are no samples are passed over.
void ForEachSample(std::string_view text, FunctionRef<void(const PrometheusSample&)> visit);

// Value of each family, summed over its label sets.
std::map<std::string, double> PrometheusSums(std::string_view text);

}  // namespace firesteel
