// A chat template comes with a checkpoint that somebody else wrote: it may be wrong, never a crash.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/json.h"
#include "text/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto compiled = firesteel::ChatTemplate::Compile(
      std::string(reinterpret_cast<const char*>(data), size), "<s>", "</s>");
  if (!compiled.ok()) return 0;
  const firesteel::Json messages = {{{"role", "user"}, {"content", "hi"}},
                                    {{"role", "assistant"}, {"content", nullptr}}};
  (void)(*compiled)->Render(messages, nullptr, true, firesteel::Json::object());
  return 0;
}
