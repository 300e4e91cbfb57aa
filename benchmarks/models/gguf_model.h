// A Qwen3 checkpoint as a GGUF file, so that another engine runs the same weights.
#pragma once

#include <string>

#include "firesteel/status.h"
#include "models/ggml_types.h"

namespace firesteel {

struct GgufTypes {
  GgmlType matrices = GgmlType::kF32;   // of the layers; vectors are float32
  GgmlType embedding = GgmlType::kF32;  // and the head, which is the embedding where tied
};

// `checkpoint`: a directory as Hugging Face lays it out. Without a tokenizer.json the file gets a
// vocabulary of made-up tokens. Errors name the file and what is missing or not understood.
Status WriteGguf(const std::string& checkpoint, GgufTypes types, const std::string& path);

}  // namespace firesteel
