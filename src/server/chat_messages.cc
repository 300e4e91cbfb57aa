#include "server/chat_messages.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace firesteel {
namespace {

// Content parts become one string, one part a line, as vLLM joins them: most templates know strings
// only.
bool JoinParts(FieldReader& fields, const std::string& name, const Json& parts, std::string* text) {
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::string part_name = fmt::format("{}[{}]", name, i);
    const Json& part = parts[i];
    if (!part.is_object()) {
      fields.Fail(part_name, part, "an object with type and text");
      return false;
    }
    const FieldReader inner(part);
    const Json* type = inner.Find("type");
    if (type == nullptr || *type != "text") {
      fields.Fail(part_name + ".type", type == nullptr ? Json(nullptr) : *type,
                  "\"text\": other kinds of content are not supported");
      return false;
    }
    const Json* value = inner.Find("text");
    if (value == nullptr || !value->is_string()) {
      fields.Fail(part_name + ".text", value == nullptr ? Json(nullptr) : *value, "a string");
      return false;
    }
    if (i > 0) text->push_back('\n');
    text->append(value->get_ref<const std::string&>());
  }
  return true;
}

// Clients send the arguments of earlier calls as a string of JSON; templates want the object.
void ParseArguments(Json& message) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (Json& call : *calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    Json& function = call["function"];
    const auto arguments = function.find("arguments");
    if (arguments == function.end() || !arguments->is_string()) continue;
    Json parsed;
    if (ParseBody(arguments->get_ref<const std::string&>(), &parsed).status == 0)
      *arguments = std::move(parsed);
  }
}

bool ParseMessage(FieldReader& fields, const std::string& name, const Json& message, Json* out) {
  if (!message.is_object()) {
    fields.Fail(name, message, "an object with role and content");
    return false;
  }
  const FieldReader inner(message);
  const Json* role = inner.Find("role");
  if (role == nullptr || !role->is_string() || role->get_ref<const std::string&>().empty()) {
    fields.Fail(name + ".role", role == nullptr ? Json(nullptr) : *role,
                "a string such as \"user\"");
    return false;
  }
  *out = message;
  const Json* content = inner.Find("content");
  if (content == nullptr) {
    // An assistant that only calls tools says nothing.
    if (*role == "assistant") {
      ParseArguments(*out);
      return true;
    }
    fields.FailWith(name + ".content",
                    name + ".content is missing, expected a string or an array of text parts");
    return false;
  }
  if (content->is_array()) {
    std::string text;
    if (!JoinParts(fields, name + ".content", *content, &text)) return false;
    (*out)["content"] = std::move(text);
  } else if (!content->is_string()) {
    fields.Fail(name + ".content", *content, "a string or an array of text parts");
    return false;
  }
  ParseArguments(*out);
  return true;
}

void ParseTools(FieldReader& fields, ChatInput* out) {
  const Json* tools = fields.Array("tools");
  if (tools != nullptr) {
    for (size_t i = 0; i < tools->size(); ++i) {
      if (!(*tools)[i].is_object()) {
        fields.Fail(fmt::format("tools[{}]", i), (*tools)[i], "an object");
        return;
      }
    }
    if (!tools->empty()) out->tools = *tools;
  }
  const Json* choice = fields.Find("tool_choice");
  if (choice == nullptr) return;
  if (*choice == "none") {
    out->tools = nullptr;
  } else if (*choice != "auto") {
    fields.Fail("tool_choice", *choice, "\"auto\" or \"none\": forcing a call is not supported");
  }
}

}  // namespace

void ParseChatInput(FieldReader& fields, ChatInput* out) {
  const Json* messages = fields.Array("messages");
  if (messages == nullptr) {
    fields.FailWith("messages", "messages is missing, expected an array of messages");
    return;
  }
  if (messages->empty()) fields.Fail("messages", *messages, "at least one message");
  for (size_t i = 0; i < messages->size(); ++i) {
    Json message;
    if (!ParseMessage(fields, fmt::format("messages[{}]", i), (*messages)[i], &message)) return;
    out->messages.push_back(std::move(message));
  }
  ParseTools(fields, out);
  fields.Bool("add_generation_prompt", &out->add_generation_prompt);
  if (const Json* kwargs = fields.Object("chat_template_kwargs")) out->template_kwargs = *kwargs;
}

}  // namespace firesteel
