// The tokenizer.ggml.* entries of a GGUF file.
#pragma once

#include <cstdint>
#include <string>

#include "firesteel/status.h"
#include "models/gguf_writer.h"

namespace firesteel {

// From `checkpoint`/tokenizer.json, byte-level BPE with Qwen2's pre-tokenizer, filled up with
// unused tokens to `vocab_size`; without that file as many made-up tokens.
Status AddVocabulary(const std::string& checkpoint, int32_t vocab_size, int32_t eos_id,
                     GgufWriter* writer);

}  // namespace firesteel
