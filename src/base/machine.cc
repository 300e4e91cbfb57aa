#include "base/machine.h"

#include <unistd.h>

namespace firesteel {

int64_t PhysicalMemoryBytes() { return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE); }

}  // namespace firesteel
