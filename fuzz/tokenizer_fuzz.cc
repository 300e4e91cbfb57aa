// A tokenizer.json that somebody else wrote: loaded or refused with a sentence, and what was loaded
// gives ids that it knows.
#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>

#include "text/tokenizer.h"

namespace {

constexpr std::string_view kText = "It's 12 naïve words,\n\n  <|im_start|>漢字 \xff\x01<s>";

// The loader takes a directory; one serves all runs.
struct ModelDirectory {
  ModelDirectory() { path = mkdtemp(path.data()); }
  ~ModelDirectory() { std::filesystem::remove_all(path); }
  std::string path = "/tmp/firesteel-fuzz-XXXXXX";
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ModelDirectory directory;
  std::ofstream(directory.path + "/tokenizer.json", std::ios::binary | std::ios::trunc)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  const auto loaded = firesteel::Tokenizer::Load(directory.path);
  if (!loaded.ok()) {
    if (loaded.status().message().empty()) __builtin_trap();
    return 0;
  }
  const firesteel::Tokenizer& tokenizer = **loaded;
  for (const bool special : {false, true}) {
    const auto ids = tokenizer.Encode(kText, special);
    for (const int32_t id : ids) {
      if (id < 0 || id >= tokenizer.vocab_size()) __builtin_trap();
    }
    (void)tokenizer.Decode(ids, special);
  }
  return 0;
}
