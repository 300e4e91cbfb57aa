#include "text/chat_template.h"

#include <map>
#include <utility>

#include "base/utf8.h"
#include "text/jinja_interpreter.h"
#include "text/jinja_parser.h"

namespace firesteel {

struct ChatTemplate::Impl {
  jinja::Template tree;
  std::string bos_token;
  std::string eos_token;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::Compile(std::string source,
                                                            std::string bos_token,
                                                            std::string eos_token) {
  if (!IsValidUtf8(source)) return InvalidArgument("chat template: not valid UTF-8");
  FS_ASSIGN(jinja::Template tree, jinja::ParseTemplate(source));
  auto impl = std::make_unique<Impl>();
  impl->tree = std::move(tree);
  impl->bos_token = std::move(bos_token);
  impl->eos_token = std::move(eos_token);
  return std::unique_ptr<ChatTemplate>(new ChatTemplate(std::move(impl)));
}

Result<std::string> ChatTemplate::Render(const Json& messages, const Json& tools,
                                         bool add_generation_prompt,
                                         const Json& extra_kwargs) const {
  if (!messages.is_array()) return InvalidArgument("chat template: messages is not an array");
  if (!tools.is_null() && !tools.is_array())
    return InvalidArgument("chat template: tools is not an array or null");
  if (!extra_kwargs.is_null() && !extra_kwargs.is_object()) {
    return InvalidArgument("chat template: the extra variables are not an object or null");
  }
  std::map<std::string, jinja::Value> variables;
  variables["bos_token"] = jinja::Value(impl_->bos_token);
  variables["eos_token"] = jinja::Value(impl_->eos_token);
  variables["add_generation_prompt"] = jinja::Value(add_generation_prompt);
  FS_ASSIGN(variables["messages"], jinja::FromJson(messages));
  FS_ASSIGN(variables["tools"], jinja::FromJson(tools));
  if (extra_kwargs.is_object()) {
    for (const auto& [name, json] : extra_kwargs.items()) {
      FS_ASSIGN(variables[name], jinja::FromJson(json));
    }
  }
  return jinja::Interpreter(impl_->tree, std::move(variables)).Run();
}

}  // namespace firesteel
