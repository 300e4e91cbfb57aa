#include <cmath>
#include <utility>

#include "kernel_bench/kernel_cases.h"
#include "kernels/paged_attention.h"

namespace firesteel {
namespace {

constexpr int32_t kHeads = 32, kKvHeads = 8, kHeadDim = 128, kBlockSize = 16;
constexpr int64_t kMaxRows = 8;

}  // namespace

// Keys and values of layers that follow each other, as in a forward pass.
struct AttentionCases::Layers {
  Layers(Exec& exec, DType dtype, int64_t context)
      : context(context),
        keys{dtype, kKvHeads, kHeadDim, TileOrder::kByDimension},
        values{dtype, kKvHeads, kHeadDim, TileOrder::kByPosition} {
    const int64_t blocks = (context + kMaxRows + kBlockSize - 1) / kBlockSize;
    for (int64_t b = 0; b < blocks; ++b) table.push_back(static_cast<BlockId>(b));
    plane_bytes = blocks * kBlockSize * keys.RowBytes();
    count = kRotationBytes / (2 * plane_bytes) + 1;
    bytes = Buffer<std::byte>(2 * count * plane_bytes);
    const int64_t cols = kKvHeads * kHeadDim;
    const std::vector<float> cached = RandomFloats((context + kMaxRows) * cols, 3);
    const AppendRows append{0, context + kMaxRows, 0, table};
    for (int64_t l = 0; l < count; ++l) {
      const ConstMatrix rows(cached.data(), context + kMaxRows, cols);
      AppendPaged(exec, rows, std::span(&append, 1), Plane(2 * l, keys));
      AppendPaged(exec, rows, std::span(&append, 1), Plane(2 * l + 1, values));
    }
  }

  PagedPlane Plane(int64_t i, const RowFormat& format) const {
    return {bytes.data() + i * plane_bytes, kBlockSize * format.RowBytes(), kBlockSize, format};
  }

  void Attend(Exec& exec, const float* q, int64_t rows, float* out) {
    next = (next + 1) % count;
    AttentionRows sequence;
    sequence.row_count = rows;
    sequence.context = context;
    sequence.table = table;
    const int64_t cols = int64_t{kHeads} * kHeadDim;
    PagedAttention(exec, ConstMatrix(q, rows, cols), std::span(&sequence, 1), Plane(2 * next, keys),
                   Plane(2 * next + 1, values), 1 / std::sqrt(float{kHeadDim}),
                   Matrix<float>(out, rows, cols));
  }

  int64_t context;
  RowFormat keys, values;
  std::vector<BlockId> table;
  int64_t plane_bytes = 0;
  int64_t count = 0;
  int64_t next = 0;
  Buffer<std::byte> bytes;
};

AttentionCases::AttentionCases(Execs& execs, const KernelChoice& choice)
    : execs_(execs),
      choice_(choice),
      q_(RandomFloats(kMaxRows * kHeads * kHeadDim, 4)),
      out_(kMaxRows * kHeads * kHeadDim) {}

AttentionCases::~AttentionCases() = default;

void AttentionCases::AddTo(std::vector<BenchCase>* cases) {
  for (const auto& [dtype, name] : {std::pair(DType::kBF16, "bf16"), {DType::kF8E4M3, "fp8"}}) {
    for (const int64_t context : choice_.contexts) {
      layers_.push_back(std::make_unique<Layers>(execs_[choice_.threads.back()], dtype, context));
      Layers& layers = *layers_.back();
      for (const int64_t rows : {int64_t{1}, kMaxRows}) {
        for (const int threads : choice_.threads) {
          BenchCase c{.op = "attention",
                      .weight_dtype = name,
                      .rows = rows,
                      .n = context,
                      .k = int64_t{kKvHeads} * kHeadDim,
                      .threads = threads};
          c.bytes = 2.0 * static_cast<double>(context * layers.keys.RowBytes());
          c.macs = 2.0 * static_cast<double>(rows * context) * kHeads * kHeadDim;
          c.call = [this, &layers, &exec = execs_[threads], rows] {
            layers.Attend(exec, q_.data(), rows, out_.data());
          };
          cases->push_back(std::move(c));
        }
      }
    }
  }
}

}  // namespace firesteel
