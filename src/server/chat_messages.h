// The messages and tools of a chat request, checked and put into the shape that chat templates
// expect.
#pragma once

#include "server/field_reader.h"
#include "server/openai_json.h"

namespace firesteel {

// Reads messages, tools, tool_choice, add_generation_prompt and chat_template_kwargs.
void ParseChatInput(FieldReader& fields, ChatInput* out);

}  // namespace firesteel
