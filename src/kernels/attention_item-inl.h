// An item of attention on one thread. Include after highway.h, inside no namespace.

#if defined(FIRESTEEL_KERNELS_ATTENTION_ITEM_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FIRESTEEL_KERNELS_ATTENTION_ITEM_INL_H
#undef FIRESTEEL_KERNELS_ATTENTION_ITEM_INL_H
#else
#define FIRESTEEL_KERNELS_ATTENTION_ITEM_INL_H
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/attention_internal.h"
#include "kernels/attention_loops-inl.h"
#include "kernels/attention_softmax-inl.h"
#include "kernels/kv_tile-inl.h"
#include "kernels/partial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace firesteel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Up to so many queries decode keys and values in registers, kFewPack of them at a time; for more
// a tile is widened once.
constexpr int64_t kFewQueries = 8;
constexpr float kLog2E = 1.44269504f;

// For each chunk: scores, the softmax, weighted values; then the chunks are joined.
class ItemRun {
 public:
  ItemRun(const AttentionCall& call, const AttentionItem& item, float* scratch)
      : call_(call),
        item_(item),
        s_(AttentionScratch::At(scratch, call)),
        stride_(call.SumStride()),
        column_(item.kv_head * call.head_dim),
        few_(item.count() <= kFewQueries) {}

  // Scale and log2(e) go into the queries, so that weights are powers of two.
  void PackQueries() {
    const float scale = call_.scale * kLog2E;
    const int64_t count = item_.count(), dim = call_.head_dim;
    int64_t width = 0;
    for (int64_t q = 0; q < count; q += width) {
      width = PackWidth(count - q, few_ ? kFewPack : kManyPack);
      for (int64_t j = 0; j < width; ++j) {
        const float* from = Query(call_.q, q + j);
        float* to = s_.queries + q * dim + j;
        for (int64_t d = 0; d < dim; ++d) to[d * width] = from[d] * scale;
      }
    }
  }

  // The softmax of one chunk.
  void Chunk(int64_t chunk, const AttentionPartial& out) {
    const int64_t cached = item_.CachedChunks();
    if (chunk >= cached) return Tail((chunk - cached) * kAttentionChunk, out);
    const int64_t position = item_.first_position + chunk * kAttentionChunk;
    const auto within = [&](int64_t p) {
      return static_cast<int32_t>(std::clamp<int64_t>(p - position, 0, kAttentionChunk));
    };
    int32_t first = kAttentionChunk, end = 0;
    for (int64_t q = 0; q < item_.count(); ++q) {
      s_.first[q] = within(item_.VisibleFirst(item_.begin + q));
      s_.end[q] = within(item_.VisibleEnd(item_.begin + q));
      if (s_.first[q] >= s_.end[q]) continue;
      first = std::min(first, s_.first[q]);
      end = std::max(end, s_.end[q]);
    }
    if (end == 0) {
      std::fill_n(out.totals, item_.count(), 0.0f);
      return;
    }
    tile_begin_ = first / kTile;
    tile_end_ = (end + kTile - 1) / kTile;
    switch (call_.keys.format.dtype) {
      case DType::kF32:
        return CachedChunk<F32Cells>(position, out);
      case DType::kBF16:
        return CachedChunk<BF16Cells>(position, out);
      default:
        return CachedChunk<F8Cells>(position, out);
    }
  }

  void Begin() { std::fill_n(s_.joined.totals, item_.count(), 0.0f); }

  // Joins what comes next in order of position.
  void JoinNext(const AttentionPartial& next) {
    for (int64_t q = 0; q < item_.count(); ++q) Join(q, next, stride_, s_.joined);
  }

  void Finish() {
    const D d;
    for (int64_t q = 0; q < item_.count(); ++q) {
      float* out = Query(call_.out, q);
      float total = s_.joined.totals[q];
      if (total == 0.0f) {
        std::fill_n(out, call_.head_dim, 0.0f);
        continue;
      }
      float factor = 1.0f;
      if (!call_.sinks.empty()) {
        const int64_t head = item_.kv_head * call_.group + (item_.begin + q) % call_.group;
        const float sink = call_.sinks[static_cast<size_t>(head)] * kLog2E;
        const float largest = std::max(s_.joined.largest[q], sink);
        factor = Exp2Of(s_.joined.largest[q] - largest);
        total = total * factor + Exp2Of(sink - largest);
      }
      const Vec scale = hn::Set(d, factor / total);
      const float* sums = s_.joined.sums + q * stride_;
      for (int64_t c = 0; c < call_.head_dim; c += kLanes) {
        StoreUpTo(hn::Mul(hn::Load(d, sums + c), scale), out + c, call_.head_dim - c);
      }
    }
  }

  const AttentionPartial& chunk() const { return s_.chunk; }

 private:
  template <typename T>
  T* Query(const Matrix<T>& m, int64_t q) const {
    const int64_t query = item_.begin + q;
    const int64_t head = item_.kv_head * item_.group + query % item_.group;
    return m.Row(item_.rows->row_begin + query / item_.group) + head * call_.head_dim;
  }

  template <class Cells>
  void CachedChunk(int64_t position, const AttentionPartial& out) {
    FindTiles<Cells>(position);
    const int64_t tile_bytes = call_.head_dim * kTile * Cells::kBytes;
    if (few_) {
      ScoresInRegisters<Cells, kFewVectors>();
    } else {
      for (int64_t t = tile_begin_; t < tile_end_; t += kWidenedTiles) {
        const int64_t tiles = std::min(kWidenedTiles, tile_end_ - t);
        const std::byte* ahead[kWidenedTiles];
        for (int64_t i = 0; i < tiles; ++i) {
          WidenKeys<Cells>(keys_[t + i], call_.head_dim, s_.keys + WidenedTile(i));
          ahead[i] = Ahead(t + i);
        }
        ScoresOfWidened<kManyPack>(t, tiles, Cells::kScaled ? key_scales_ + t : nullptr, ahead,
                                   tile_bytes);
      }
    }
    WeighAll(Cells::kScaled ? value_scales_ : nullptr, out);
    const bool in_registers = few_ && call_.head_dim % kLanes == 0;
    const int64_t most = in_registers ? kRegisterTiles : kWidenedTiles;
    for (int64_t t = tile_begin_; t < tile_end_;) {
      const int64_t tiles = SeenByAll(t, most);
      ValueTile values[kRegisterTiles];
      for (int64_t i = 0; i < tiles; ++i) {
        values[i] = {values_[t + i], Ahead(t + i + kChunkTiles)};
        if (in_registers) continue;
        const int64_t begin = std::max((t + i) * kTile, first_) - (t + i) * kTile;
        const int64_t end = std::min((t + i + 1) * kTile, end_) - (t + i) * kTile;
        float* widened = s_.values + WidenedTile(i);
        WidenValues<Cells>(values_[t + i], begin, end, call_.head_dim, stride_, widened);
        values[i].rows = reinterpret_cast<const std::byte*>(widened);
      }
      if (in_registers) {
        AddValuesOf<Cells, false>(t, values, tiles, call_.head_dim, tile_bytes, out);
      } else {
        AddValuesOf<F32Cells, true>(t, values, tiles, stride_, tile_bytes, out);
      }
      t += tiles;
    }
  }

  // Rows of a tail take the way of widened tiles.
  void Tail(int64_t row, const AttentionPartial& out) {
    const AttentionRows& rows = *item_.rows;
    const int64_t end = std::min(rows.tail_keys.rows - row, kAttentionChunk);
    for (int64_t q = 0; q < item_.count(); ++q) {
      s_.first[q] = 0;
      s_.end[q] = static_cast<int32_t>(end);
    }
    tile_begin_ = 0;
    tile_end_ = (end + kTile - 1) / kTile;
    FindRange();
    const auto* keys = reinterpret_cast<const std::byte*>(s_.keys);
    const auto* values = reinterpret_cast<const std::byte*>(s_.values);
    for (int64_t t = 0; t < tile_end_; ++t) {
      KeysFromRows(rows.tail_keys, row + t * kTile, end - t * kTile, column_, call_.head_dim,
                   s_.keys);
      if (few_) {
        ScoresOfWidened<kFewPack>(t, 1, nullptr, &keys, 0);
      } else {
        ScoresOfWidened<kManyPack>(t, 1, nullptr, &keys, 0);
      }
    }
    WeighAll(nullptr, out);
    for (int64_t t = 0; t < tile_end_; ++t) {
      ValuesFromRows(rows.tail_values, row + t * kTile, std::min(end - t * kTile, kTile), column_,
                     call_.head_dim, stride_, s_.values);
      const ValueTile tile{values, values};
      AddValuesOf<F32Cells, true>(t, &tile, 1, stride_, 0, out);
    }
  }

  // Where this head begins in each tile of the chunk, and in what to prefetch: after the keys come
  // the values, after those the keys of the next chunk.
  template <class Cells>
  void FindTiles(int64_t position) {
    FindRange();
    const RowFormat& format = call_.keys.format;
    const int64_t head = format.HeadOffset(item_.kv_head);
    const int64_t scales = format.ScaleOffset(item_.kv_head, 0);
    for (int64_t t = tile_begin_; t < tile_end_; ++t) {
      const std::byte* keys = call_.keys.Tile(item_.rows->table, position + t * kTile);
      const std::byte* values = call_.values.Tile(item_.rows->table, position + t * kTile);
      keys_[t] = keys + head;
      values_[t] = values + head;
      if constexpr (Cells::kScaled) {
        key_scales_[t] = reinterpret_cast<const float*>(keys + scales);
        value_scales_[t] = reinterpret_cast<const float*>(values + scales);
        // They lie behind what the loops prefetch.
        hwy::Prefetch(key_scales_[t]);
        hwy::Prefetch(value_scales_[t]);
      }
    }
    const int64_t next = position + kAttentionChunk;
    for (int64_t i = 0; i < kAheadTiles; ++i) {
      const int64_t p = next + i * kTile;
      next_[i] = p < item_.cached_end ? call_.keys.Tile(item_.rows->table, p) + head
                                      : values_[tile_end_ - 1];
    }
  }

  // The positions that all queries see, and those that any sees.
  void FindRange() {
    const int64_t count = item_.count();
    common_first_ = *std::max_element(s_.first, s_.first + count);
    common_end_ = *std::min_element(s_.end, s_.end + count);
    first_ = kAttentionChunk;
    end_ = 0;
    for (int64_t q = 0; q < count; ++q) {
      if (s_.first[q] >= s_.end[q]) continue;
      first_ = std::min<int64_t>(first_, s_.first[q]);
      end_ = std::max<int64_t>(end_, s_.end[q]);
    }
  }

  // What comes kAheadTiles after a tile: keys count from 0, values from kChunkTiles.
  const std::byte* Ahead(int64_t t) const {
    t += kAheadTiles;
    if (t < kChunkTiles + kAheadTiles) {
      if (t < tile_end_) return keys_[t];
      return values_[std::min(tile_begin_ + std::max<int64_t>(t - tile_end_, 0), tile_end_ - 1)];
    }
    t -= kChunkTiles;
    return t < tile_end_ ? values_[t] : next_[std::min(t - tile_end_, kAheadTiles - 1)];
  }

  template <class Cells, int kV>
  void ScoresInRegisters() {
    int64_t v = tile_begin_ * kTileVectors;
    const int64_t end = tile_end_ * kTileVectors;
    for (; v + kV <= end; v += kV) ScoreVectors<Cells, kV>(v);
    if constexpr (kV > 2) {
      if (v + 2 <= end) {
        ScoreVectors<Cells, 2>(v);
        v += 2;
      }
    }
    for (; v < end; ++v) ScoreVectors<Cells, 1>(v);
  }

  template <class Cells, int kV>
  void ScoreVectors(int64_t first) {
    Columns<kV> columns;
    for (int v = 0; v < kV; ++v) {
      const int64_t t = (first + v) / kTileVectors, lane = (first + v) % kTileVectors * kLanes;
      columns.keys[v] = keys_[t] + lane * Cells::kBytes;
      columns.ahead[v] = Ahead(t);
      columns.scales[v] = Cells::kScaled ? key_scales_[t] + lane : nullptr;
    }
    ScoresOfAll<Cells, kFewPack, kV>(s_.queries, item_.count(), columns,
                                     call_.head_dim * kTile * Cells::kBytes, call_.head_dim,
                                     s_.scores + first * kLanes);
  }

  int64_t WidenedTile(int64_t i) const { return i * kTile * stride_; }

  // `tiles` widened tiles, of which the first is tile t of the chunk.
  template <int kPack>
  void ScoresOfWidened(int64_t t, int64_t tiles, const float* const* scales,
                       const std::byte* const* ahead, int64_t ahead_bytes) {
    int64_t v = 0;
    for (; v + kManyVectors <= tiles * kTileVectors; v += kManyVectors) {
      ScoreWidened<kPack, kManyVectors>(t, v, scales, ahead, ahead_bytes);
    }
    for (; v < tiles * kTileVectors; ++v) {
      ScoreWidened<kPack, 1>(t, v, scales, ahead, ahead_bytes);
    }
  }

  template <int kPack, int kV>
  void ScoreWidened(int64_t t, int64_t first, const float* const* scales,
                    const std::byte* const* ahead, int64_t ahead_bytes) {
    Columns<kV> columns;
    for (int v = 0; v < kV; ++v) {
      const int64_t i = (first + v) / kTileVectors, lane = (first + v) % kTileVectors * kLanes;
      columns.keys[v] = reinterpret_cast<const std::byte*>(s_.keys + WidenedTile(i) + lane);
      columns.ahead[v] = ahead[i];
      columns.scales[v] = scales != nullptr ? scales[i] + lane : nullptr;
    }
    float* scores = s_.scores + t * kTile + first * kLanes;
    if (scales != nullptr) {
      ScoresOfAll<WidenedF8, kPack, kV>(s_.queries, item_.count(), columns, ahead_bytes,
                                        call_.head_dim, scores);
    } else {
      ScoresOfAll<F32Cells, kPack, kV>(s_.queries, item_.count(), columns, ahead_bytes,
                                       call_.head_dim, scores);
    }
  }

  // FP8 that was widened still needs its scales.
  struct WidenedF8 : F32Cells {
    static constexpr bool kScaled = true;
    static constexpr float kUnit = F8Cells::kUnit;
  };

  void WeighAll(const float* const* value_scales, const AttentionPartial& out) {
    std::fill_n(out.sums, item_.count() * stride_, 0.0f);
    for (int64_t q = 0; q < item_.count(); ++q) {
      if (s_.first[q] >= s_.end[q]) {
        out.totals[q] = 0.0f;
        continue;
      }
      Weigh(s_.scores + q * kScoreStride, s_.first[q], s_.end[q], value_scales, out.largest + q,
            out.totals + q);
    }
  }

  // Tiles from t on, `most` at most, that all queries see wholly; 1 when not even tile t is such.
  int64_t SeenByAll(int64_t t, int64_t most) const {
    int64_t tiles = 0;
    while (tiles < most && t + tiles < tile_end_ && IsSeenByAll(t + tiles)) ++tiles;
    return std::max<int64_t>(tiles, 1);
  }
  bool IsSeenByAll(int64_t t) const {
    return common_first_ <= t * kTile && common_end_ >= (t + 1) * kTile;
  }

  // Queries that see different parts of a tile go one by one: a weight of 0 would not keep out a
  // value that is not finite.
  template <class Cells, bool kWidened>
  void AddValuesOf(int64_t t, const ValueTile* tiles, int64_t count, int64_t width,
                   int64_t tile_bytes, const AttentionPartial& out) {
    const float* weights = s_.scores + t * kTile;
    ValueSpan values{tiles, count, 0, kTile, width * Cells::kBytes, 0};
    if (IsSeenByAll(t)) {
      AddTiles<Cells, kWidened>(weights, item_.count(), values, width, tile_bytes, stride_,
                                out.sums);
      return;
    }
    for (int64_t q = 0; q < item_.count(); ++q) {
      values.begin = std::max<int64_t>(s_.first[q] - t * kTile, 0);
      values.end = std::min<int64_t>(s_.end[q] - t * kTile, kTile);
      if (values.begin >= values.end) continue;
      AddTiles<Cells, kWidened>(weights + q * kScoreStride, 1, values, width, tile_bytes, stride_,
                                out.sums + q * stride_);
    }
  }

  static constexpr int64_t kWidenedTiles = AttentionScratch::kMaxTilesAtOnce;
  static constexpr int64_t kRegisterTiles = 4;
  static constexpr int64_t kAheadTiles = 4;

  const AttentionCall& call_;
  const AttentionItem& item_;
  const AttentionScratch s_;
  const int64_t stride_;
  const int64_t column_;  // of this head in a row of keys or values
  const bool few_;
  int64_t tile_begin_ = 0, tile_end_ = 0;  // of the chunk, that any query sees
  int64_t first_ = 0, end_ = 0, common_first_ = 0, common_end_ = 0;
  const std::byte* keys_[kChunkTiles];
  const std::byte* values_[kChunkTiles];
  const std::byte* next_[kAheadTiles];
  const float* key_scales_[kChunkTiles];
  const float* value_scales_[kChunkTiles];
};

}  // namespace firesteel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
