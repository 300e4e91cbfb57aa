#include "base/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>

namespace firesteel {

int64_t PhysicalMemoryBytes() { return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE); }

int32_t NumCpus() { return static_cast<int32_t>(sysconf(_SC_NPROCESSORS_ONLN)); }

std::string CpuName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t begin = line.find_first_not_of(": \t", line.find(':'));
    if (begin != std::string::npos) return line.substr(begin);
  }
  return "";
}

std::string KernelRelease() {
  utsname name{};
  return uname(&name) == 0 ? name.release : "";
}

}  // namespace firesteel
