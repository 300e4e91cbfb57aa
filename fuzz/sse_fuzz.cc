// The event parser of the load generator: any bytes, cut at any place.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "net/sse.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t cut = text.empty() ? 0 : data[0] % text.size();
  firesteel::SseParser parser;
  size_t bytes = 0;
  const auto count = [&](std::string_view event) { bytes += event.size(); };
  parser.Push(text.substr(0, cut), count);
  parser.Push(text.substr(cut), count);
  return bytes > text.size() ? __builtin_trap(), 0 : 0;
}
