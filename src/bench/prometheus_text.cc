#include "bench/prometheus_text.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace firesteel {
namespace {

std::optional<PrometheusSample> ParseSample(std::string_view line) {
  if (line.empty() || line.front() == '#') return std::nullopt;
  const size_t name_end = line.find_first_of("{ ");
  if (name_end == std::string_view::npos) return std::nullopt;
  PrometheusSample sample{.name = line.substr(0, name_end), .labels = {}};
  std::string_view rest = line.substr(name_end);
  if (rest.front() == '{') {
    const size_t close = rest.rfind('}');
    if (close == std::string_view::npos) return std::nullopt;
    sample.labels = rest.substr(1, close - 1);
    rest = rest.substr(close + 1);
  }
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), sample.value);
  if (parsed.ec != std::errc()) return std::nullopt;
  return sample;
}

}  // namespace

std::string_view PrometheusSample::Label(std::string_view label) const {
  const std::string key = std::string(label) + "=\"";
  const size_t begin = labels.find(key);
  if (begin == std::string_view::npos) return "";
  const std::string_view rest = labels.substr(begin + key.size());
  return rest.substr(0, rest.find('"'));
}

void ForEachSample(std::string_view text, FunctionRef<void(const PrometheusSample&)> visit) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (const auto sample = ParseSample(text.substr(0, end))) visit(*sample);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::map<std::string, double> PrometheusSums(std::string_view text) {
  std::map<std::string, double> sums;
  ForEachSample(text, [&](const PrometheusSample& sample) {
    sums[std::string(sample.name)] += sample.value;
  });
  return sums;
}

}  // namespace firesteel
