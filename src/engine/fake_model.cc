#include "engine/fake_model.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

namespace firesteel {
namespace {

constexpr uint64_t kStart = 0x243F6A8885A308D3u;
constexpr float kScripted = 1000.0f;

uint64_t Mix(uint64_t x) {  // splitmix64's finalizer
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9u;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace

CacheGroup HashGroup(std::string name) {
  return {std::move(name), 1, {{.dtype = DType::kF32, .heads = 1, .head_dim = 4}}};
}

namespace {

std::byte* PlaceOfHash(const KvView& kv, int32_t group, SequenceSlot slot, int64_t position) {
  const PagedPlane plane = kv.Plane(group, 0, 0);
  return plane.Tile(kv.Table(slot, group), position) +
         plane.format.ElementOffset(0, position % kAttentionTile, 0);
}

}  // namespace

uint64_t LoadHash(const KvView& kv, int32_t group, SequenceSlot slot, int64_t position) {
  uint64_t hash;
  std::memcpy(&hash, PlaceOfHash(kv, group, slot, position), sizeof(hash));
  return hash;
}

void StoreHash(const KvView& kv, int32_t group, SequenceSlot slot, int64_t position,
               uint64_t hash) {
  std::memcpy(PlaceOfHash(kv, group, slot, position), &hash, sizeof(hash));
}

FakeModel::FakeModel(FakeModelOptions options) : options_(std::move(options)) {
  info_.architecture = "FakeForCausalLM";
  info_.vocab_size = options_.vocab_size;
  info_.hidden_size = kHidden;
  info_.num_layers = 1;
  info_.max_positions = options_.max_positions;
  info_.eos_ids = options_.eos_ids;
}

uint64_t FakeModel::Hash(std::span<const int32_t> tokens) {
  uint64_t hash = kStart;
  for (int32_t token : tokens) hash = Extend(hash, token);
  return hash;
}

uint64_t FakeModel::Extend(uint64_t hash, int32_t token) {
  return Mix(hash + 0x9E3779B97F4A7C15u * (static_cast<uint64_t>(token) + 1));
}

void FakeModel::Feature(uint64_t hash, std::span<float> out) {
  // 24 bits each: exact in a float.
  out[0] = static_cast<float>(hash & 0xFFFFFF);
  out[1] = static_cast<float>((hash >> 24) & 0xFFFFFF);
}

void FakeModel::Logits(uint64_t hash, int64_t position, std::span<float> out) const {
  for (size_t v = 0; v < out.size(); ++v) {
    const uint64_t bits = Mix(hash ^ (0xD1342543DE82EF95u * (v + 1)));
    out[v] = options_.logit_spread * static_cast<float>(bits >> 40) * 0x1p-24f;
  }
  const int32_t wished = options_.script ? options_.script(position) : -1;
  if (wished >= 0) out[static_cast<size_t>(wished)] = kScripted;
}

std::vector<CacheGroup> FakeModel::CacheGroups(DType kv_dtype) const {
  return {HashGroup("target")};
}

Status FakeModel::CheckBatch(const ForwardBatch& batch, const KvView& kv) const {
  size_t row = 0;
  for (const SequenceRows& rows : batch.sequences) {
    if (rows.row_begin != static_cast<int32_t>(row) || rows.row_count < 1) {
      return Internal(
          fmt::format("slot {}: rows begin at {}, expected {}", rows.slot, rows.row_begin, row));
    }
    for (int32_t i = 0; i < rows.row_count; ++i, ++row) {
      if (row >= batch.tokens.size() || batch.positions[row] != rows.first_position + i) {
        return Internal(fmt::format("slot {}: row {} is out of order", rows.slot, row));
      }
      if (batch.tokens[row] < 0 || batch.tokens[row] >= info_.vocab_size) {
        return Internal(
            fmt::format("row {}: token {} of {}", row, batch.tokens[row], info_.vocab_size));
      }
    }
    const int64_t end = rows.first_position + rows.row_count;
    const auto slots =
        static_cast<int64_t>(kv.Table(rows.slot, 0).size()) * kv.Plane(0, 0, 0).block_size;
    if (end > slots || end > info_.max_positions) {
      return Internal(fmt::format("slot {}: position {} has no place", rows.slot, end - 1));
    }
  }
  for (const SequenceRows& rows : batch.shared) {
    const auto begin = static_cast<size_t>(rows.row_begin);
    for (size_t i = 0; i < static_cast<size_t>(rows.row_count); ++i) {
      if (begin + i >= row ||
          batch.positions[begin + i] != rows.first_position + static_cast<int64_t>(i)) {
        return Internal(fmt::format("slot {}: shared row {} is out of order", rows.slot, i));
      }
    }
  }
  if (row != batch.tokens.size() || row != batch.positions.size()) {
    return Internal(fmt::format("{} rows of {} belong to sequences", row, batch.tokens.size()));
  }
  int32_t before = -1;
  for (int32_t logit_row : batch.logit_rows) {
    if (logit_row <= before || logit_row >= static_cast<int32_t>(row)) {
      return Internal(fmt::format("logit row {} after {} of {}", logit_row, before, row));
    }
    before = logit_row;
  }
  return {};
}

Status FakeModel::Forward(Exec& exec, const ForwardBatch& batch, const KvView& kv,
                          Workspace& workspace, ForwardOutput& out) const {
  FS_TRY(CheckBatch(batch, kv));
  if (options_.on_forward) FS_TRY(options_.on_forward(batch));
  const auto layers = static_cast<int64_t>(batch.feature_layers.size());
  out.logits = workspace.Floats(static_cast<int64_t>(batch.logit_rows.size()), info_.vocab_size);
  out.features =
      layers == 0 ? Matrix<float>()
                  : workspace.Floats(static_cast<int64_t>(batch.tokens.size()), layers * kHidden);
  size_t next_logit = 0;
  for (const SequenceRows& rows : batch.sequences) {
    for (int32_t i = 0; i < rows.row_count; ++i) {
      const int32_t row = rows.row_begin + i;
      const int64_t position = rows.first_position + i;
      const uint64_t before = position == 0 ? kStart : LoadHash(kv, 0, rows.slot, position - 1);
      const uint64_t hash = Extend(before, batch.tokens[static_cast<size_t>(row)]);
      StoreHash(kv, 0, rows.slot, position, hash);
      for (const SequenceRows& shared : batch.shared) {
        if (row < shared.row_begin || row >= shared.row_begin + shared.row_count) continue;
        StoreHash(kv, 0, shared.slot, position, hash);
      }
      for (int64_t layer = 0; layer < layers; ++layer) {
        Feature(hash,
                out.features.RowSpan(row).subspan(static_cast<size_t>(layer * kHidden), kHidden));
      }
      if (next_logit < batch.logit_rows.size() && batch.logit_rows[next_logit] == row) {
        Logits(hash, position + 1, out.logits.RowSpan(static_cast<int64_t>(next_logit)));
        ++next_logit;
      }
    }
  }
  return {};
}

}  // namespace firesteel
