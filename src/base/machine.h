// What this machine has.
#pragma once

#include <cstdint>

namespace firesteel {

int64_t PhysicalMemoryBytes();

}  // namespace firesteel
