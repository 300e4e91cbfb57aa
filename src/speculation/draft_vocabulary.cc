#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "speculation/draft_vocabulary_internal.h"

namespace firesteel {
namespace {

int64_t ReadInt(const TensorInfo& info, int64_t i) {
  if (info.dtype == DType::kI32) {
    int32_t value = 0;
    std::memcpy(&value, info.data + i * 4, 4);
    return value;
  }
  int64_t value = 0;
  std::memcpy(&value, info.data + i * 8, 8);
  return value;
}

}  // namespace

Result<std::vector<int32_t>> LoadDraftVocabulary(const Safetensors& tensors, WeightReader& reader,
                                                 int32_t draft_vocab, int32_t vocab,
                                                 const std::string& where) {
  reader.Ignore("t2d");
  const auto found = tensors.tensors().find("d2t");
  if (found == tensors.tensors().end()) {
    if (draft_vocab == vocab) return std::vector<int32_t>();
    return DataCorrupt(
        fmt::format("{}: tensor d2t is missing, draft_vocab_size {} needs it for a "
                    "vocabulary of {}",
                    where, draft_vocab, vocab));
  }
  reader.Ignore("d2t");
  const TensorInfo& info = found->second;
  if (info.dtype != DType::kI64 && info.dtype != DType::kI32) {
    return Unsupported(
        fmt::format("{}: tensor d2t is {}, expected I64 or I32", info.file, Name(info.dtype)));
  }
  if (info.shape != std::vector<int64_t>{draft_vocab}) {
    return DataCorrupt(fmt::format("{}: tensor d2t is [{}], config wants [{}]", info.file,
                                   fmt::join(info.shape, ", "), draft_vocab));
  }
  std::vector<int32_t> ids(static_cast<size_t>(draft_vocab));
  std::vector<bool> seen(static_cast<size_t>(vocab));
  for (int32_t i = 0; i < draft_vocab; ++i) {
    const int64_t offset = ReadInt(info, i);
    if (offset < -i || offset >= vocab - i) {
      return DataCorrupt(
          fmt::format("{}: tensor d2t holds {} at {}, expected {} to {}: an offset "
                      "to a token of the target",
                      info.file, offset, i, -i, vocab - i - 1));
    }
    const auto id = static_cast<size_t>(i + offset);
    if (seen[id]) {
      return DataCorrupt(
          fmt::format("{}: tensor d2t names token {} twice, again at {}", info.file, id, i));
    }
    seen[id] = true;
    ids[static_cast<size_t>(i)] = static_cast<int32_t>(id);
  }
  return ids;
}

void ScatterLogits(std::span<const float> logits, std::span<const int32_t> ids,
                   std::span<float> out) {
  for (size_t i = 0; i < logits.size(); ++i) out[static_cast<size_t>(ids[i])] = logits[i];
}

}  // namespace firesteel
