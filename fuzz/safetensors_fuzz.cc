// A weight file of any bytes: opened or refused with a sentence.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const int fd = memfd_create("fuzz", 0);
  if (fd < 0 || write(fd, data, size) != static_cast<ssize_t>(size)) return 0;
  auto file = firesteel::Safetensors::OpenFile("/proc/self/fd/" + std::to_string(fd));
  if (file.ok()) {
    // What was accepted must be readable to its last byte.
    unsigned sum = 0;
    for (const auto& [name, tensor] : file->tensors()) {
      const int64_t bytes =
          tensor.NumElements() * static_cast<int64_t>(firesteel::SizeOf(tensor.dtype));
      for (int64_t i = 0; i < bytes; ++i) sum += static_cast<unsigned>(tensor.data[i]);
    }
    asm volatile("" : : "r"(sum));
  }
  close(fd);
  return 0;
}
