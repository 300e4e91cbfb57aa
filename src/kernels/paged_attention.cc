#include "kernels/paged_attention.h"

#include "kernels/attention_internal.h"
#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/paged_attention.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// after highway.h, which sets its macros for the target
#include "kernels/attention_item-inl.h"

HWY_BEFORE_NAMESPACE();
namespace firesteel::HWY_NAMESPACE {

// Chunks [begin, end) of an item; all of them when `partials` is null, and then the result as well.
void RunChunks(const AttentionCall& call, const AttentionItem& item, int64_t begin, int64_t end,
               float* partials, float* scratch) {
  ItemRun run(call, item, scratch);
  run.PackQueries();
  run.Begin();
  for (int64_t c = begin; c < end; ++c) {
    if (partials == nullptr) {
      run.Chunk(c, run.chunk());
      run.JoinNext(run.chunk());
    } else {
      float* at = partials + c * AttentionPartial::Floats(item.count(), call.SumStride());
      run.Chunk(c, AttentionPartial::At(at, item.count()));
    }
  }
  if (partials == nullptr) run.Finish();
}

void JoinChunks(const AttentionCall& call, const AttentionItem& item, float* partials,
                float* scratch) {
  ItemRun run(call, item, scratch);
  run.Begin();
  for (int64_t c = 0; c < item.Chunks(); ++c) {
    float* at = partials + c * AttentionPartial::Floats(item.count(), call.SumStride());
    run.JoinNext(AttentionPartial::At(at, item.count()));
  }
  run.Finish();
}

}  // namespace firesteel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace firesteel {

HWY_EXPORT(RunChunks);
HWY_EXPORT(JoinChunks);

namespace {

void RunPiece(const AttentionCall& call, const AttentionPlan& plan, int piece, float* scratch) {
  const AttentionPlan::Place begin = plan.PieceBegin(piece), end = plan.PieceBegin(piece + 1);
  for (int64_t i = begin.item; i < plan.num_items() && i <= end.item; ++i) {
    const AttentionItem& item = plan.item(i);
    const int64_t first = i == begin.item ? begin.chunk : 0;
    const int64_t last = i == end.item ? end.chunk : item.Chunks();
    // A piece that ends where an item begins has no part of it.
    if (i == end.item && last == 0) break;
    HWY_DYNAMIC_DISPATCH(RunChunks)(call, item, first, last, plan.Partials(i), scratch);
  }
}

}  // namespace

void PagedAttention(Exec& exec, ConstMatrix q, std::span<const AttentionRows> sequences,
                    const PagedPlane& keys, const PagedPlane& values, float scale,
                    Matrix<float> out, std::span<const float> sinks) {
  const RowFormat& format = keys.format;
  FS_CHECK(format.head_dim >= 1 && format.head_dim <= kMaxAttentionHeadDim, "attention heads of {}",
           format.head_dim);
  FS_CHECK(format.order == TileOrder::kByDimension && values.format.order == TileOrder::kByPosition,
           "attention over keys in order {} and values in order {}, expected by dimension and by "
           "position",
           static_cast<int>(format.order), static_cast<int>(values.format.order));
  FS_DCHECK(values.format.heads == format.heads && values.format.head_dim == format.head_dim &&
            values.format.dtype == format.dtype);
  FS_DCHECK(q.cols % (int64_t{format.heads} * format.head_dim) == 0 && q.cols == out.cols);
  FS_DCHECK(keys.block_size % kAttentionTile == 0 && values.block_size % kAttentionTile == 0);
  AttentionCall call{q, out, keys, values, scale, sinks, format.head_dim, 0};
  call.group = q.cols / format.head_dim / format.heads;
  FS_CHECK(sinks.empty() || static_cast<int64_t>(sinks.size()) == call.group * format.heads,
           "attention with {} sinks, expected {}", sinks.size(), call.group * format.heads);

  const int threads = exec.pool.NumThreads();
  AttentionPlan plan(call, sequences, threads);
  if (plan.num_items() == 0) return;
  const int64_t item_bytes = (plan.ItemBytes() + 63) / 64 * 64;
  const int64_t floats = AttentionScratch::Floats(call);
  std::byte* memory = exec.Scratch(item_bytes + (threads * floats + plan.PartialFloats()) *
                                                    static_cast<int64_t>(sizeof(float)));
  auto* scratch = reinterpret_cast<float*>(memory + item_bytes);
  plan.Build(memory, scratch + threads * floats);
  exec.pool.ParallelFor(threads, 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t piece = begin; piece < end; ++piece) {
      RunPiece(call, plan, static_cast<int>(piece), scratch + thread * floats);
    }
  });
  if (plan.PartialFloats() == 0) return;
  exec.pool.ParallelFor(plan.num_items(), 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t i = begin; i < end; ++i) {
      if (plan.Partials(i) == nullptr) continue;
      HWY_DYNAMIC_DISPATCH(JoinChunks)
      (call, plan.item(i), plan.Partials(i), scratch + thread * floats);
    }
  });
}

}  // namespace firesteel
#endif  // HWY_ONCE
