// A drafter's reduced vocabulary: fewer, frequent tokens of the target's, so that the head is
// small. Tokens outside of it are never drafted, and q is zero there.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "firesteel/status.h"
#include "model/safetensors.h"
#include "model/weights.h"

namespace firesteel {

// Tensor `d2t`, which holds offsets: draft id i is the target's i + d2t[i]. Empty when the file has
// none, which is right only when both vocabularies are of one size. `t2d`, the mask of training,
// says nothing more and is not read. kDataCorrupt names an id outside of `vocab` or one that comes
// twice.
Result<std::vector<int32_t>> LoadDraftVocabulary(const Safetensors& tensors, WeightReader& reader,
                                                 int32_t draft_vocab, int32_t vocab,
                                                 const std::string& where);

// out[ids[i]] = logits[i]; what no id names keeps what it has, -infinity.
void ScatterLogits(std::span<const float> logits, std::span<const int32_t> ids,
                   std::span<float> out);

}  // namespace firesteel
