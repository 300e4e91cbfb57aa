// What this machine has.
#pragma once

#include <cstdint>
#include <string>

namespace firesteel {

int64_t PhysicalMemoryBytes();
int32_t NumCpus();            // online
std::string CpuName();        // "AMD EPYC 7763 64-Core Processor"; "" when the kernel does not say
std::string KernelRelease();  // "6.1.0-28-amd64"

}  // namespace firesteel
