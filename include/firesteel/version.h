#pragma once

namespace firesteel {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace firesteel
