// Speed of the kernels that a step spends its time in.
//
//   kernels_bench --benchmark_filter=MatMul --benchmark_repetitions=5
//   --benchmark_report_aggregates_only=true
//
// bytes/s counts weights (or cache) once per call, GMAC/s all multiply-adds. On a shared machine
// compare the rows of one run.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "kernels/convert.h"
#include "kernels/matmul.h"
#include "kernels/paged_attention.h"

namespace firesteel {
namespace {

std::vector<float> RandomFloats(int64_t count, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    const auto bits = Philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, {seed, 0});
    values[i] = static_cast<float>(UniformOpen(bits[0]) - 0.5);
  }
  return values;
}

constexpr int64_t kRows = 4096, kCols = 2048;

// 512 MB of weights that follow each other, so that each call reads from memory and not from a
// cache.
std::vector<PackedWeight>& Weights(DType dtype) {
  static std::vector<PackedWeight> of_bf16, of_f32;
  std::vector<PackedWeight>& weights = dtype == DType::kBF16 ? of_bf16 : of_f32;
  if (!weights.empty()) return weights;
  of_bf16.clear();
  of_f32.clear();
  ThreadPool pool(2);
  Exec exec{pool};
  const std::vector<float> floats = RandomFloats(kRows * kCols, 1);
  std::vector<uint16_t> halves(floats.size());
  std::transform(floats.begin(), floats.end(), halves.begin(), F32ToBF16);
  const auto* data = dtype == DType::kBF16 ? reinterpret_cast<const std::byte*>(halves.data())
                                           : reinterpret_cast<const std::byte*>(floats.data());
  const WeightView view{data, dtype, kRows, kCols, "w"};
  const int64_t bytes = kRows * kCols * static_cast<int64_t>(SizeOf(dtype));
  for (int64_t i = 0; i < (int64_t{512} << 20) / bytes; ++i) {
    weights.push_back(*PackWeight(exec, std::span(&view, 1)));
  }
  return weights;
}

void MatMulBench(benchmark::State& state, DType dtype) {
  const int64_t m = state.range(0);
  ThreadPool pool(static_cast<int>(state.range(1)));
  Exec exec{pool};
  const std::vector<PackedWeight>& weights = Weights(dtype);
  Workspace workspace;
  const Matrix<float> x = workspace.Floats(m, kCols), out = workspace.Floats(m, kRows);
  const std::vector<float> row = RandomFloats(kCols, 2);
  for (int64_t r = 0; r < m; ++r) std::copy(row.begin(), row.end(), x.Row(r));
  size_t next = 0;
  for (auto _ : state) {
    MatMul(exec, x, weights[next], out);
    next = (next + 1) % weights.size();
    benchmark::DoNotOptimize(out.data);
  }
  const auto rate = [&](int64_t count) {
    return benchmark::Counter(static_cast<double>(count),
                              benchmark::Counter::kIsIterationInvariantRate);
  };
  state.counters["bytes/s"] = rate(weights[0].bytes());
  state.counters["GMAC/s"] = rate(m * kRows * kCols);
}

void MatMulBF16(benchmark::State& state) { MatMulBench(state, DType::kBF16); }
void MatMulF32(benchmark::State& state) { MatMulBench(state, DType::kF32); }

void MatMulArguments(benchmark::internal::Benchmark* b) {
  for (int64_t threads : {1, 2}) {
    for (int64_t m : {1, 2, 4, 8, 12, 16, 24, 32, 64, 512}) b->Args({m, threads});
  }
  b->ArgNames({"M", "threads"})->UseRealTime()->Unit(benchmark::kMillisecond);
}
BENCHMARK(MatMulBF16)->Apply(MatMulArguments);
BENCHMARK(MatMulF32)->Apply(MatMulArguments);

// What one thread can read: the ceiling of MatMul at few rows.
void ReadMemory(benchmark::State& state) {
  const std::vector<PackedWeight>& weights = Weights(DType::kBF16);
  size_t next = 0;
  for (auto _ : state) {
    const auto* words = reinterpret_cast<const uint64_t*>(weights[next].data());
    const int64_t count = weights[next].bytes() / 8;
    uint64_t sums[8] = {};
    for (int64_t i = 0; i + 8 <= count; i += 8) {
      for (int64_t j = 0; j < 8; ++j) sums[j] += words[i + j];
    }
    benchmark::DoNotOptimize(sums);
    next = (next + 1) % weights.size();
  }
  state.counters["bytes/s"] = benchmark::Counter(static_cast<double>(weights[0].bytes()),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(ReadMemory)->UseRealTime()->Unit(benchmark::kMillisecond);

void Attention(benchmark::State& state, DType dtype) {
  const int64_t context = state.range(0), rows = state.range(1);
  ThreadPool pool(static_cast<int>(state.range(2)));
  Exec exec{pool};
  const RowFormat format{dtype, 8, 128};
  const int32_t block_size = 16;
  const int64_t blocks = (context + rows + block_size - 1) / block_size;
  // Layers that follow each other, as in a forward pass; together larger than the caches close to a
  // core.
  constexpr int64_t kLayers = 8;
  const int64_t plane_bytes = blocks * block_size * format.RowBytes();
  const Buffer<std::byte> bytes(2 * kLayers * plane_bytes);
  std::vector<BlockId> table;
  for (int64_t b = 0; b < blocks; ++b) table.push_back(static_cast<BlockId>(b));
  const auto plane = [&](int64_t i) {
    return PagedPlane{bytes.data() + i * plane_bytes, block_size * format.RowBytes(), block_size,
                      format};
  };
  const std::vector<float> cached = RandomFloats((context + rows) * 1024, 1);
  const AppendRows append{0, context + rows, 0, table};
  for (int64_t i = 0; i < 2 * kLayers; ++i) {
    AppendPaged(exec, ConstMatrix(cached.data(), context + rows, 1024), std::span(&append, 1),
                plane(i));
  }
  const std::vector<float> q = RandomFloats(rows * 2048, 2);
  std::vector<float> out(q.size());
  AttentionRows sequence;
  sequence.row_count = rows;
  sequence.context = context;
  sequence.table = table;
  int64_t layer = 0;
  for (auto _ : state) {
    PagedAttention(exec, ConstMatrix(q.data(), rows, 2048), std::span(&sequence, 1),
                   plane(2 * layer), plane(2 * layer + 1), 0.088f,
                   Matrix<float>(out.data(), rows, 2048));
    layer = (layer + 1) % kLayers;
  }
  const auto rate = [&](int64_t count) {
    return benchmark::Counter(static_cast<double>(count),
                              benchmark::Counter::kIsIterationInvariantRate);
  };
  state.counters["bytes/s"] = rate(2 * plane_bytes);
  state.counters["GMAC/s"] = rate(2 * rows * 2048 * context);
}

void AttentionBF16(benchmark::State& state) { Attention(state, DType::kBF16); }
void AttentionF8(benchmark::State& state) { Attention(state, DType::kF8E4M3); }

void AttentionArguments(benchmark::internal::Benchmark* b) {
  for (int64_t threads : {1, 2}) {
    for (int64_t context : {1024, 4096}) {
      for (int64_t rows : {1, 8}) b->Args({context, rows, threads});
    }
  }
  b->Args({1024, 512, 1});
  b->ArgNames({"context", "rows", "threads"})->UseRealTime()->Unit(benchmark::kMillisecond);
}
BENCHMARK(AttentionBF16)->Apply(AttentionArguments);
BENCHMARK(AttentionF8)->Apply(AttentionArguments);

}  // namespace
}  // namespace firesteel
