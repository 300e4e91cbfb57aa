// A model's chat template: messages to the prompt text.
//
// Reads the subset of Jinja2 that published templates use, with trim_blocks and lstrip_blocks as
// Hugging Face sets them. Not in it, and refused when compiling: include, import, extends, call,
// filter and with blocks, recursive loops, macros inside loops, unpacked arguments.
//
// Immutable after construction, thread-safe. Template and messages may both be hostile: depth,
// steps and size of the output are limited.
#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "firesteel/status.h"

namespace firesteel {

class ChatTemplate {
 public:
  // `bos_token` and `eos_token` are what the template sees under these names. kInvalidArgument with
  // the line for what does not parse or is not in the subset.
  static Result<std::unique_ptr<ChatTemplate>> Compile(std::string source, std::string bos_token,
                                                       std::string eos_token);
  ~ChatTemplate();

  // `messages` is an array of objects as in a chat request. `tools` is an array or null.
  // `extra_kwargs` is an object or null; its members are variables of the template
  // ("enable_thinking") and win over the ones above. kInvalidArgument when the template calls
  // raise_exception, with the template's own message; also when the messages are not what it
  // expects, or a limit is reached.
  Result<std::string> Render(const Json& messages, const Json& tools, bool add_generation_prompt,
                             const Json& extra_kwargs) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace firesteel
