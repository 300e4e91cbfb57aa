#include <fmt/format.h>

#include <cstring>
#include <optional>

#include "model/config.h"
#include "speculation/drafter_checkpoint_internal.h"

namespace firesteel {
namespace {

constexpr size_t kMaxTargetLayers = 64;

bool SameBytes(const WeightView& a, const WeightView* b) {
  return b != nullptr && a.dtype == b->dtype && a.rows == b->rows && a.cols == b->cols &&
         std::memcmp(a.data, b->data, static_cast<size_t>(a.rows * a.cols) * SizeOf(a.dtype)) == 0;
}

bool SameBytes(const PackedWeight& a, const PackedWeight* b) {
  return b != nullptr && a.format() == b->format() && a.rows() == b->rows() &&
         a.cols() == b->cols() && a.bytes() == b->bytes() &&
         std::memcmp(a.data(), b->data(), static_cast<size_t>(a.bytes())) == 0;
}

// Whether PackWeight makes `format` of F32, BF16 and F16.
bool IsMadeFromFloats(WeightFormat format) {
  return format == WeightFormat::kF32 || format == WeightFormat::kBF16 ||
         format == WeightFormat::kInt8 || format == WeightFormat::kInt8Group ||
         format == WeightFormat::kInt4;
}

}  // namespace

Result<Json> ReadDrafterConfig(const DrafterContext& context, std::string_view method) {
  if (!context.options.model.empty()) return ReadConfigJson(context.options.model);
  return InvalidArgument(
      fmt::format("{}: no drafter checkpoint was named, expected a directory", method));
}

Result<SharedTables> LoadSharedTables(Exec& exec, WeightReader& reader, int64_t head_rows,
                                      int64_t hidden_size, const Model& target,
                                      const std::string& directory) {
  SharedTables tables;
  const int64_t vocab = target.info().vocab_size;
  if (reader.Has("embed_tokens.weight")) {
    FS_ASSIGN(tables.embedding, reader.TakeTable("embed_tokens.weight", vocab, hidden_size));
    if (SameBytes(tables.embedding, target.embedding())) tables.embedding = *target.embedding();
  } else if (target.embedding() != nullptr) {
    tables.embedding = *target.embedding();
  } else {
    return Unsupported(
        fmt::format("{}: has no embed_tokens.weight, and the target has none to share", directory));
  }
  const PackedWeight* shared = target.lm_head();
  if (shared != nullptr && shared->rows() == head_rows) tables.shared_head = shared;
  if (reader.Has("lm_head.weight")) {
    FS_ASSIGN(const WeightSource head, reader.Take("lm_head.weight", head_rows, hidden_size));
    // As the target's, so that equal heads are found equal.
    std::optional<WeightFormat> format;
    if (shared != nullptr && IsMadeFromFloats(shared->format())) format = shared->format();
    FS_ASSIGN(tables.own_head, reader.PackAs(exec, {&head, 1}, format));
    if (SameBytes(tables.own_head, tables.shared_head)) {
      tables.own_head = {};
    } else {
      tables.shared_head = nullptr;
    }
  } else if (tables.shared_head == nullptr) {
    return Unsupported(
        fmt::format("{}: has no lm_head.weight, and the target has none of {} rows to share",
                    directory, head_rows));
  }
  return tables;
}

Status RequireEqual(const char* field, int64_t found, int64_t target, const std::string& where) {
  if (found == target) return {};
  return InvalidArgument(
      fmt::format("{}: {} is {}, the target has {}", where, field, found, target));
}

Result<std::vector<int32_t>> CheckTargetLayers(const std::vector<int64_t>& ids, const char* key,
                                               const ModelInfo& target, const std::string& where) {
  if (ids.empty() || ids.size() > kMaxTargetLayers) {
    return InvalidArgument(fmt::format("{}: {} holds {} layers, expected 1 to {}", where, key,
                                       ids.size(), kMaxTargetLayers));
  }
  for (const int64_t id : ids) {
    if (id == target.num_layers - 1) {
      return InvalidArgument(
          fmt::format("{}: {} holds {}, the target's last layer, which training sees after the "
                      "final norm only: expected at most {}",
                      where, key, id, target.num_layers - 2));
    }
    if (id < -1 || id >= target.num_layers) {
      return InvalidArgument(
          fmt::format("{}: {} holds {}, expected -1 to {}", where, key, id, target.num_layers - 2));
    }
  }
  return std::vector<int32_t>(ids.begin(), ids.end());
}

Result<std::vector<int32_t>> ParseTargetLayers(const Json& config, const ModelInfo& target,
                                               const std::string& where) {
  FS_ASSIGN(const auto ids, GetIntList(config, "target_layer_ids", where));
  return CheckTargetLayers(ids.value_or(std::vector<int64_t>{}), "target_layer_ids", target, where);
}

}  // namespace firesteel
