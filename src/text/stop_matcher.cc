#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace firesteel {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_stop)
    : include_stop_(include_stop) {
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty()) continue;
    Pattern pattern{.text = std::move(stops[i]), .index = i, .fallback = {}};
    const std::string& p = pattern.text;
    pattern.fallback.assign(p.size() + 1, 0);
    size_t k = 0;
    for (size_t j = 1; j < p.size(); ++j) {
      while (k > 0 && p[j] != p[k]) k = pattern.fallback[k];
      if (p[j] == p[k]) ++k;
      pattern.fallback[j + 1] = k;
    }
    patterns_.push_back(std::move(pattern));
  }
}

StopMatcher::Output StopMatcher::Push(std::string_view text) {
  if (matched_) return {};
  const size_t old_size = held_.size();
  held_ += text;
  for (size_t i = 0; i < text.size(); ++i) {
    const Pattern* hit = nullptr;
    for (Pattern& pattern : patterns_) {
      while (pattern.state > 0 && pattern.text[pattern.state] != text[i]) {
        pattern.state = pattern.fallback[pattern.state];
      }
      if (pattern.text[pattern.state] == text[i]) ++pattern.state;
      if (pattern.state == pattern.text.size() &&
          (hit == nullptr || pattern.text.size() > hit->text.size())) {
        hit = &pattern;
      }
    }
    if (hit == nullptr) continue;
    matched_ = true;
    // What precedes the match is still in held_: its bytes were a longer or equal suffix that could
    // begin this stop.
    const size_t end = old_size + i + 1;
    held_.resize(include_stop_ ? end : end - hit->text.size());
    return {std::exchange(held_, ""), hit->index};
  }
  size_t keep = 0;
  for (const Pattern& pattern : patterns_) keep = std::max(keep, pattern.state);
  Output out{held_.substr(0, held_.size() - keep), std::nullopt};
  held_.erase(0, held_.size() - keep);
  return out;
}

std::string StopMatcher::Finish() { return std::exchange(held_, ""); }

}  // namespace firesteel
