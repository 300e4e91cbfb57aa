#include "kernels/paged_attention.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/paged_attention.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// after highway.h, which sets its macros for the target
#include "hwy/contrib/math/math-inl.h"
#include "kernels/kv_tile-inl.h"
#include "kernels/partial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace firesteel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Queries (a row and a head) that share the decoded tiles of one key-value head; as many as keep
// their sums in L2.
constexpr int64_t kMaxQueries = 64;
constexpr int64_t kMaxSums = 16384;

// The running softmax of one query. Largest score, the sum of exponentials by lane (added up at the
// end only), and the position-weighted sum of values in `Scratch::sums`.
struct Running {
  float largest;
  bool started;
  HWY_ALIGN float totals[kTile];
};

struct Scratch {
  HWY_ALIGN float keys[kMaxHeadDim * kTile];
  HWY_ALIGN float values[kTile * kMaxHeadDim];
  HWY_ALIGN float sums[kMaxSums];
  HWY_ALIGN float scores[kMaxQueries][kTile];
  Running running[kMaxQueries];
};

// Scores of kQueries queries against a tile. Four sums over d = 0, 1, 2, 3 modulo 4 hide the
// latency of the multiply-add.
template <int kQueries>
HWY_INLINE void Scores(const float* const* queries, const float* HWY_RESTRICT keys,
                       int64_t head_dim, float scale, float (*scores)[kTile]) {
  const D d;
  for (int64_t v = 0; v < kTileVectors; ++v) {
    const float* HWY_RESTRICT column = keys + v * kLanes;
    Vec sum[kQueries][4];
#pragma GCC unroll 16
    for (int q = 0; q < kQueries; ++q) {
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c) sum[q][c] = hn::Zero(d);
    }
    int64_t i = 0;
    for (; i + 4 <= head_dim; i += 4) {
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c) {
        const Vec key = hn::Load(d, column + (i + c) * kTile);
#pragma GCC unroll 16
        for (int q = 0; q < kQueries; ++q) {
          sum[q][c] = hn::MulAdd(key, hn::Set(d, queries[q][i + c]), sum[q][c]);
        }
      }
    }
    for (; i < head_dim; ++i) {
      const Vec key = hn::Load(d, column + i * kTile);
#pragma GCC unroll 16
      for (int q = 0; q < kQueries; ++q) {
        sum[q][0] = hn::MulAdd(key, hn::Set(d, queries[q][i]), sum[q][0]);
      }
    }
#pragma GCC unroll 16
    for (int q = 0; q < kQueries; ++q) {
      const Vec sums = hn::Add(hn::Add(sum[q][0], sum[q][1]), hn::Add(sum[q][2], sum[q][3]));
      hn::Store(hn::Mul(sums, hn::Set(d, scale)), d, scores[q] + v * kLanes);
    }
  }
}

// Turns the scores of the first `valid` positions into weights exp(score - largest), zeros behind,
// and returns the factor that brings older sums to the new largest score: exactly 1 when that did
// not change.
HWY_INLINE float Softmax(int64_t valid, float* HWY_RESTRICT scores, Running& running) {
  const D d;
  Vec s[kTileVectors];
  Vec tile_largest = hn::Set(d, -std::numeric_limits<float>::infinity());
  for (int64_t v = 0; v < kTileVectors; ++v) {
    const int64_t left = std::clamp<int64_t>(valid - v * kLanes, 0, kLanes);
    const auto mask = hn::FirstN(d, static_cast<size_t>(left));
    s[v] = hn::Load(d, scores + v * kLanes);
    tile_largest = hn::IfThenElse(mask, hn::Max(tile_largest, s[v]), tile_largest);
  }
  float largest = hn::GetLane(hn::MaxOfLanes(d, tile_largest));
  float correction = 1.0f;
  if (running.started && running.largest >= largest) {
    largest = running.largest;
  } else if (running.started) {
    correction = hn::GetLane(hn::Exp(d, hn::Set(d, running.largest - largest)));
  }
  for (int64_t v = 0; v < kTileVectors; ++v) {
    const int64_t left = std::clamp<int64_t>(valid - v * kLanes, 0, kLanes);
    const auto mask = hn::FirstN(d, static_cast<size_t>(left));
    const Vec x = hn::IfThenElseZero(mask, hn::Sub(s[v], hn::Set(d, largest)));
    const Vec weight = hn::IfThenElseZero(mask, hn::Exp(d, x));
    hn::Store(weight, d, scores + v * kLanes);
    float* total = running.totals + v * kLanes;
    hn::Store(hn::MulAdd(hn::Load(d, total), hn::Set(d, correction), weight), d, total);
  }
  running.started = true;
  running.largest = largest;
  return correction;
}

// sums[0, kVectors * kLanes) = sums * correction + sum over the valid positions of weight * value,
// in order.
template <int kVectors>
HWY_INLINE void AddValues(const float* HWY_RESTRICT weights, int64_t valid, float correction,
                          const float* HWY_RESTRICT values, int64_t stride,
                          float* HWY_RESTRICT sums) {
  const D d;
  Vec sum[kVectors];
  const Vec factor = hn::Set(d, correction);
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::Mul(hn::Load(d, sums + v * kLanes), factor);
  for (int64_t p = 0; p < valid; ++p) {
    const Vec weight = hn::Set(d, weights[p]);
    const float* HWY_RESTRICT row = values + p * stride;
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      sum[v] = hn::MulAdd(weight, hn::Load(d, row + v * kLanes), sum[v]);
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; ++v) hn::Store(sum[v], d, sums + v * kLanes);
}

// Queries [begin, end) of one sequence and key-value head, counted row by row and within a row head
// by head.
class Item {
 public:
  Item(const ConstMatrix& q, const AttentionRows& sequence, const PagedPlane& keys,
       const PagedPlane& values, float scale, int64_t kv_head, int64_t begin, int64_t end)
      : q_(q),
        sequence_(sequence),
        keys_(keys),
        values_(values),
        scale_(scale),
        kv_head_(kv_head),
        head_dim_(keys.format.head_dim),
        stride_((head_dim_ + kTile - 1) / kTile * kTile),
        group_(q.cols / head_dim_ / keys.format.heads),
        begin_(begin),
        end_(end) {}

  void Run(const Matrix<float>& out) {
    const int64_t count = end_ - begin_;
    std::fill_n(s_.sums, count * stride_, 0.0f);
    for (int64_t i = 0; i < count; ++i) {
      s_.running[i].started = false;
      std::fill_n(s_.running[i].totals, kTile, 0.0f);
      const int64_t query = begin_ + i;
      queries_[i] = q_.Row(sequence_.row_begin + query / group_) + HeadOf(query) * head_dim_;
    }
    Cached();
    Tail();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t query = begin_ + i;
      Finish(i, out.Row(sequence_.row_begin + query / group_) + HeadOf(query) * head_dim_);
    }
  }

 private:
  int64_t HeadOf(int64_t query) const { return kv_head_ * group_ + query % group_; }
  int64_t Visible(int64_t query) const {
    return sequence_.context + (sequence_.causal ? query / group_ + 1 : 0);
  }

  void Cached() {
    const int64_t visible = Visible(end_ - 1);
    int64_t first = begin_;  // queries before it see nothing of this tile nor of any later one
    for (int64_t position = 0; position < visible; position += kTile) {
      while (Visible(first) <= position) ++first;
      TileRows rows;
      const int64_t tile_rows = std::min(kTile, visible - position);
      DecodeTile(keys_, position, tile_rows, rows, true);
      DecodeTile(values_, position, tile_rows, rows, false);
      if (position + kTile < visible) {
        Prefetch(keys_, position + kTile);
        Prefetch(values_, position + kTile);
      }
      Attend(first - begin_,
             [&](int64_t i) { return std::min(kTile, Visible(begin_ + i) - position); });
    }
  }

  void Tail() {
    const int64_t tail = sequence_.tail_keys.rows;
    for (int64_t t = 0; t < tail; t += kTile) {
      TileRows rows;
      const int64_t valid = std::min(kTile, tail - t);
      const auto point_to = [&](const ConstMatrix& m) {
        for (int64_t p = 0; p < kTile; ++p) {
          const float* row = m.Row(t + std::min(p, valid - 1)) + kv_head_ * head_dim_;
          rows.elements[p] = reinterpret_cast<const std::byte*>(row);
        }
      };
      point_to(sequence_.tail_keys);
      DecodeKeys<F32Cells>(rows, head_dim_, s_.keys);
      point_to(sequence_.tail_values);
      DecodeValues<F32Cells>(rows, valid, head_dim_, stride_, s_.values);
      Attend(0, [&](int64_t) { return valid; });
    }
  }

  // Positions past `count` repeat the last one: their columns are masked, but a row nobody wrote
  // need not be read.
  void DecodeTile(const PagedPlane& plane, int64_t position, int64_t count, TileRows& rows,
                  bool as_keys) {
    const RowFormat& format = plane.format;
    const auto bytes = static_cast<int64_t>(SizeOf(format.dtype));
    const std::byte* first = plane.Row(sequence_.table, position);  // a block holds whole tiles
    for (int64_t p = 0; p < kTile; ++p) {
      const std::byte* row = first + std::min(p, count - 1) * format.RowBytes();
      rows.elements[p] = row + kv_head_ * head_dim_ * bytes;
      if (format.dtype == DType::kF8E4M3) {
        const int64_t scales = int64_t{format.heads} * head_dim_;
        std::memcpy(&rows.scales[p], row + scales + kv_head_ * 4, sizeof(float));
      }
    }
    switch (format.dtype) {
      case DType::kF32:
        return Decode<F32Cells>(rows, count, as_keys);
      case DType::kBF16:
        return Decode<BF16Cells>(rows, count, as_keys);
      default:
        return Decode<F8Cells>(rows, count, as_keys);
    }
  }

  template <class Cells>
  void Decode(const TileRows& rows, int64_t count, bool as_keys) {
    if (as_keys) {
      DecodeKeys<Cells>(rows, head_dim_, s_.keys);
    } else {
      DecodeValues<Cells>(rows, count, head_dim_, stride_, s_.values);
    }
  }

  // A head's part of a row is a few lines, and the next row a stride away: the hardware does not
  // foresee that.
  void Prefetch(const PagedPlane& plane, int64_t position) const {
    const auto bytes = head_dim_ * static_cast<int64_t>(SizeOf(plane.format.dtype));
    const std::byte* first = plane.Row(sequence_.table, position) + kv_head_ * bytes;
    for (int64_t p = 0; p < kTile; ++p) {
      const std::byte* row = first + p * plane.format.RowBytes();
      for (int64_t b = 0; b < bytes; b += 64) hwy::Prefetch(row + b);
    }
  }

  // The decoded tile for queries `first` and up; valid_of(i) positions of it for query i, at least
  // one.
  template <class ValidOf>
  HWY_INLINE void Attend(int64_t first, ValidOf valid_of) {
    const int64_t count = end_ - begin_;
    constexpr int kTogether = kTileVectors == 1 ? 4 : 1;  // 16 sums in registers, or 4
    int64_t i = first;
    for (; i + kTogether <= count; i += kTogether) {
      Scores<kTogether>(queries_ + i, s_.keys, head_dim_, scale_, s_.scores + i);
    }
    for (; i < count; ++i) Scores<1>(queries_ + i, s_.keys, head_dim_, scale_, s_.scores + i);
    for (i = first; i < count; ++i) {
      const int64_t valid = valid_of(i);
      const float correction = Softmax(valid, s_.scores[i], s_.running[i]);
      float* sums = s_.sums + i * stride_;
      int64_t d = 0;
      for (; d + 8 * kLanes <= stride_; d += 8 * kLanes) {
        AddValues<8>(s_.scores[i], valid, correction, s_.values + d, stride_, sums + d);
      }
      for (; d + 4 * kLanes <= stride_; d += 4 * kLanes) {
        AddValues<4>(s_.scores[i], valid, correction, s_.values + d, stride_, sums + d);
      }
      for (; d < stride_; d += kLanes) {
        AddValues<1>(s_.scores[i], valid, correction, s_.values + d, stride_, sums + d);
      }
    }
  }

  void Finish(int64_t i, float* out) {
    const D d;
    float* sums = s_.sums + i * stride_;
    Vec total = hn::Load(d, s_.running[i].totals);
    for (int64_t v = 1; v < kTileVectors; ++v) {
      total = hn::Add(total, hn::Load(d, s_.running[i].totals + v * kLanes));
    }
    // A query that saw nothing has zero sums and gives zeros.
    const float sum = s_.running[i].started ? hn::GetLane(hn::SumOfLanes(d, total)) : 1.0f;
    for (int64_t c = 0; c < head_dim_; c += kLanes) {
      StoreUpTo(hn::Div(hn::Load(d, sums + c), hn::Set(d, sum)), out + c, head_dim_ - c);
    }
  }

  const ConstMatrix& q_;
  const AttentionRows& sequence_;
  const PagedPlane& keys_;
  const PagedPlane& values_;
  const float scale_;
  const int64_t kv_head_, head_dim_, stride_, group_, begin_, end_;
  const float* queries_[kMaxQueries];
  Scratch s_;
};

void AttendItem(const ConstMatrix& q, const AttentionRows& sequence, const PagedPlane& keys,
                const PagedPlane& values, float scale, int64_t kv_head, int64_t begin, int64_t end,
                const Matrix<float>& out) {
  Item item(q, sequence, keys, values, scale, kv_head, begin, end);
  item.Run(out);
}

int64_t MaxQueries(int64_t head_dim) {
  return std::min(kMaxQueries, kMaxSums / ((head_dim + kTile - 1) / kTile * kTile));
}

}  // namespace firesteel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace firesteel {

HWY_EXPORT(AttendItem);
HWY_EXPORT(MaxQueries);

void PagedAttention(Exec& exec, ConstMatrix q, std::span<const AttentionRows> sequences,
                    const PagedPlane& keys, const PagedPlane& values, float scale,
                    Matrix<float> out) {
  const RowFormat& format = keys.format;
  FS_CHECK(format.head_dim >= 1 && format.head_dim <= kMaxAttentionHeadDim, "attention heads of {}",
           format.head_dim);
  FS_DCHECK(values.format.heads == format.heads && values.format.head_dim == format.head_dim);
  FS_DCHECK(q.cols % (int64_t{format.heads} * format.head_dim) == 0 && q.cols == out.cols);
  FS_DCHECK(keys.block_size % kAttentionTile == 0 && values.block_size % kAttentionTile == 0);
  const int64_t group = q.cols / format.head_dim / format.heads;
  const int64_t most = HWY_DYNAMIC_DISPATCH(MaxQueries)(format.head_dim);
  // A sequence's queries of one head go in as few parts as fit, and in more only when threads would
  // stay idle.
  const int64_t pairs = static_cast<int64_t>(sequences.size()) * format.heads;
  const int64_t wanted = pairs == 0 ? 1 : (exec.pool.NumThreads() + pairs - 1) / pairs;
  const auto parts_of = [&](const AttentionRows& sequence) {
    const int64_t queries = sequence.row_count * group;
    return std::max((queries + most - 1) / most, std::min(wanted, sequence.row_count));
  };
  int64_t parts_of_head = 0;
  for (const AttentionRows& sequence : sequences) parts_of_head += parts_of(sequence);
  // Heads are the outer index, so that threads share every sequence evenly however long each is.
  exec.pool.ParallelFor(format.heads * parts_of_head, 1, [&](int64_t begin, int64_t end, int) {
    int64_t item = begin;
    while (item < end) {
      const int64_t kv_head = item / parts_of_head;
      int64_t part = item % parts_of_head;
      size_t s = 0;
      for (; part >= parts_of(sequences[s]); ++s) part -= parts_of(sequences[s]);
      const AttentionRows& sequence = sequences[s];
      const int64_t parts = parts_of(sequence);
      const int64_t queries = sequence.row_count * group;
      HWY_DYNAMIC_DISPATCH(AttendItem)
      (q, sequence, keys, values, scale, kv_head, queries * part / parts,
       queries * (part + 1) / parts, out);
      ++item;
    }
  });
}

}  // namespace firesteel
#endif  // HWY_ONCE
