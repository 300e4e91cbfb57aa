// Nearest known name to a mistyped one, for "unknown flag --foo, did you mean --food?".
// Thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace firesteel {

// The candidate with the smallest edit distance, or "" when none is near (distance above a third of
// the length, at least 2).
std::string NearestName(std::string_view name, std::span<const std::string> candidates);

}  // namespace firesteel
