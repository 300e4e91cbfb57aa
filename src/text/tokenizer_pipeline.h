// The parts of tokenizer.json around the model: normalizer, pre_tokenizer, post_processor, decoder.
#pragma once

#include "firesteel/status.h"
#include "text/dom_node.h"
#include "text/tokenizer_file.h"

namespace firesteel {

// Fills nfc, pre_tokenizer, prefix_ids and suffix_ids. Every kind that is not understood is an
// error: guessing would give other tokens than the model was trained on.
Status ReadPipeline(const DomNode& top, TokenizerFile* file);

}  // namespace firesteel
