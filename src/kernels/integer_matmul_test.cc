// The integer path on every instruction set that this machine has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/integer_kernels_internal.h"
#include "kernels/quantize_internal.h"
#include "kernels/test_support.h"

namespace firesteel {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::kInt8, WeightFormat::kInt8Group,
                                     WeightFormat::kInt4};
constexpr int64_t kPanel = PackedWeight::kPanel;

PackedWeight Pack(Exec& exec, const TestMatrix& w, WeightFormat format) {
  const WeightSource source{
      {reinterpret_cast<const std::byte*>(w.view().data), DType::kF32, w.rows(), w.cols(), "w"},
      {}};
  Result<PackedWeight> packed = PackWeight(exec, {&source, 1}, format);
  EXPECT_TRUE(packed.ok()) << packed.status().message();
  return *std::move(packed);
}

int64_t GroupSize(WeightFormat format) {
  return format == WeightFormat::kInt4 ? kChunk : kChunk * kBlockChunks;
}

// What is stored for feature n: an integer for each k and the scale of each group of GroupSize.
struct Feature {
  std::vector<int32_t> weights;
  std::vector<float> scales;  // of groups
  float scale = 1;            // of the row

  float Dequantized(int64_t k, int64_t group_size) const {
    return scale * (scales[static_cast<size_t>(k / group_size)] *
                    static_cast<float>(weights[static_cast<size_t>(k)]));
  }
};

Feature Read(const PackedWeight& w, int64_t n) {
  const auto* panel = reinterpret_cast<const uint8_t*>(w.data()) + n / kPanel * w.panel_bytes();
  const auto scale_at = [&](int64_t offset) {
    float scale;
    std::memcpy(&scale, panel + offset + n % kPanel * 4, 4);
    return scale;
  };
  Feature feature;
  const bool grouped = w.format() == WeightFormat::kInt8Group;
  if (!grouped) feature.scale = scale_at(0);
  for (int64_t k = 0; k < w.cols(); ++k) {
    const int64_t chunk = k / kChunk, within = k % kChunk;
    if (w.format() == WeightFormat::kInt4) {
      const uint8_t* base = panel + kScaleBytes + chunk * kInt4ChunkBytes;
      const uint8_t* word = base + kInt4HeadBytes + within / 8 * kStepBytes + n % kPanel * 4;
      const int nibble = kNibbleOrder[within % 8];
      const int q = word[nibble / 2] >> nibble % 2 * 4 & 15;
      feature.weights.push_back(16 * q - base[kPanel + n % kPanel]);
      if (within == 0) feature.scales.push_back(Int4Scale(base[n % kPanel]));
    } else {
      const int64_t heads = grouped ? chunk / kBlockChunks + 1 : 1;
      const uint8_t* step =
          panel + heads * kScaleBytes + chunk * kInt8ChunkBytes + within / 4 * kStepBytes;
      feature.weights.push_back(int{step[n % kPanel * 4 + within % 4]} - 128);
      if (k % (kChunk * kBlockChunks) == 0) {
        const int64_t at = (heads - 1) * (kScaleBytes + kBlockChunks * kInt8ChunkBytes);
        feature.scales.push_back(grouped ? scale_at(at) : 1.0f);
      }
    }
  }
  return feature;
}

// A group of activations, rounded as matmul.h says.
struct PlainGroup {
  float scale = 0;
  std::vector<int32_t> q;
};
PlainGroup RoundGroup(std::span<const float> x) {
  PlainGroup group;
  float max = 0;
  for (float v : x) max = std::max(max, std::fabs(v));
  const float inverse = max < 0x1p-119f ? 0 : 127.0f / max;
  if (inverse != 0) group.scale = max / 127.0f;
  for (float v : x) group.q.push_back(static_cast<int32_t>(std::nearbyintf(v * inverse)));
  return group;
}

// The meaning of an output, to the bit.
float Plain(std::span<const float> x, const Feature& feature, WeightFormat format) {
  const auto size = static_cast<size_t>(GroupSize(format));
  float sum = 0;
  for (size_t k = 0; k < x.size(); k += size) {
    const PlainGroup group = RoundGroup(x.subspan(k, std::min(size, x.size() - k)));
    int32_t dot = 0;
    for (size_t i = 0; i < group.q.size(); ++i) dot += group.q[i] * feature.weights[k + i];
    const float factor =
        format == WeightFormat::kInt8 ? group.scale : feature.scales[k / size] * group.scale;
    sum = std::fma(static_cast<float>(dot), factor, sum);
  }
  return sum * feature.scale;
}

void MatMulOn(const IntegerKernelEntry& kernel, Exec& exec, ConstMatrix x, const PackedWeight& w,
              const Matrix<float>& out, MatMulStore store = MatMulStore::kSet) {
  std::byte* scratch = exec.Scratch(QuantizedBytesFor(kernel, x.rows, x.cols, w.format()));
  const QuantizedRows rows = QuantizeRowsFor(kernel, exec, x, w.format(), scratch);
  exec.pool.ParallelFor((w.rows() + kPanel - 1) / kPanel, 1, [&](int64_t begin, int64_t end, int) {
    IntegerPanels(rows, w, out, store, begin, end);
  });
}

template <typename Test>
void ForEachKernel(Test test) {
  for (const IntegerKernelEntry& kernel : IntegerKernels()) {
    if (!kernel.runs_here()) continue;
    SCOPED_TRACE(kernel.name);
    test(kernel);
  }
}

TEST(IntegerMatMul, PrintsWhatRuns) {
  std::string names;
  ForEachKernel([&](const IntegerKernelEntry& kernel) { names += std::string(" ") + kernel.name; });
  std::printf("integer kernels that run here:%s\n", names.c_str());
  EXPECT_NE(names.find("PORTABLE"), std::string::npos);
}

// Sums of integers are exact and the floating steps stand in one order, so this holds to the bit on
// every instruction set.
TEST(IntegerMatMul, IsThePlainLoopToTheBit) {
  ThreadPool pool(2);
  Exec exec{pool};
  for (WeightFormat format : kFormats) {
    for (int64_t n : {1, 31, 33, 64}) {
      for (int64_t k : {1, 3, 31, 32, 33, 96, 128, 129, 160, 300, 512}) {
        SCOPED_TRACE(std::string(Name(format)) + " " + std::to_string(n) + " x " +
                     std::to_string(k));
        const TestMatrix w = TestMatrix::Random(n, k, static_cast<uint32_t>(n * 7 + k));
        const PackedWeight packed = Pack(exec, w, format);
        std::vector<Feature> features;
        for (int64_t f = 0; f < n; ++f) features.push_back(Read(packed, f));
        for (int64_t m : {1, 2, 3, 7}) {
          const TestMatrix x = TestMatrix::Random(m, k, 5, k + 3);
          ForEachKernel([&](const IntegerKernelEntry& kernel) {
            TestMatrix out(m, n, n + 5), sum(m, n);
            MatMulOn(kernel, exec, x, packed, out);
            for (int64_t r = 0; r < m; ++r) std::fill_n(sum.Row(r), n, 2.0f);
            MatMulOn(kernel, exec, x, packed, sum, MatMulStore::kAdd);
            for (int64_t r = 0; r < m; ++r) {
              for (int64_t c = 0; c < n; ++c) {
                const float expected =
                    Plain(x.view().RowSpan(r), features[static_cast<size_t>(c)], format);
                ASSERT_EQ(out.Row(r)[c], expected) << r << " " << c;
                ASSERT_EQ(sum.Row(r)[c], 2.0f + expected) << r << " " << c;
              }
            }
          });
        }
      }
    }
  }
}

// Against float64 of what the integers stand for: only the rounding of a few sums is left.
TEST(IntegerMatMul, IsTheProductOfWhatWasRounded) {
  ThreadPool pool(1);
  Exec exec{pool};
  const int64_t m = 5, n = 70, k = 900;
  for (WeightFormat format : kFormats) {
    const TestMatrix w = TestMatrix::Random(n, k, 3), x = TestMatrix::Random(m, k, 4);
    const PackedWeight packed = Pack(exec, w, format);
    TestMatrix out(m, n);
    MatMulOn(IntegerKernelHere(), exec, x, packed, out);
    const int64_t size = GroupSize(format);
    for (int64_t c = 0; c < n; ++c) {
      const Feature feature = Read(packed, c);
      for (int64_t r = 0; r < m; ++r) {
        double expected = 0, magnitude = 0;
        for (int64_t g = 0; g < k; g += size) {
          const auto count = static_cast<size_t>(std::min(size, k - g));
          const PlainGroup group =
              RoundGroup(x.view().RowSpan(r).subspan(static_cast<size_t>(g), count));
          for (size_t i = 0; i < count; ++i) {
            const double term = double{group.scale} * group.q[i] *
                                feature.Dequantized(g + static_cast<int64_t>(i), size);
            expected += term;
            magnitude += std::fabs(term);
          }
        }
        ASSERT_NEAR(out.Row(r)[c], expected, magnitude * 0x1p-21);
      }
    }
  }
}

TEST(IntegerMatMul, StaysWithinTheRoundingOfWeightsAndActivations) {
  ThreadPool pool(1);
  Exec exec{pool};
  const int64_t m = 9, n = 96, k = 1024;
  const TestMatrix w = TestMatrix::Random(n, k, 8), x = TestMatrix::Random(m, k, 9);
  for (WeightFormat format : kFormats) {
    TestMatrix out(m, n);
    MatMulOn(IntegerKernelHere(), exec, x, Pack(exec, w, format), out);
    double error = 0, size = 0;
    for (int64_t r = 0; r < m; ++r) {
      for (int64_t c = 0; c < n; ++c) {
        double exact = 0;
        for (int64_t i = 0; i < k; ++i) exact += double{x.Row(r)[i]} * w.Row(c)[i];
        error += (out.Row(r)[c] - exact) * (out.Row(r)[c] - exact);
        size += exact * exact;
      }
    }
    const double relative = std::sqrt(error / size);
    std::printf("%s: relative error of products of normal matrices %.4f\n",
                std::string(Name(format)).c_str(), relative);
    // A step of 2 max / 254 or range / 15 leaves step / sqrt(12); normal values, maximum about 3.5
    // to 4 sigma of a row and 4 sigma of a range of 32.
    EXPECT_LT(relative, format == WeightFormat::kInt4 ? 0.085 : 0.013);
    EXPECT_GT(relative, 1e-4);  // else nothing was rounded
  }
}

TEST(IntegerMatMul, RowsDoNotDependOnTheBatch) {
  const int64_t n = 167, k = 418;
  const TestMatrix rows = TestMatrix::Random(512, k, 6, k + 6), w = TestMatrix::Random(n, k, 7);
  ThreadPool single(1);
  Exec one{single};
  std::vector<int64_t> counts;
  for (int64_t m = 1; m <= 64; ++m) counts.push_back(m);
  counts.insert(counts.end(), {65, 127, 512});
  for (WeightFormat format : kFormats) {
    const PackedWeight packed = Pack(one, w, format);
    TestMatrix alone(512, n);
    for (int64_t r = 0; r < 512; ++r) {
      MatMulOn(IntegerKernels().back(), one, rows.view().RowRange(r, 1), packed,
               alone.view().RowRange(r, 1));
    }
    ForEachKernel([&](const IntegerKernelEntry& kernel) {
      for (int threads : {1, 2, 3}) {
        ThreadPool pool(threads);
        Exec exec{pool};
        for (int64_t m : counts) {
          const int64_t first = (m * 37) % (512 - m + 1);  // so that a row takes many places
          TestMatrix out(m, n, n + 1);
          MatMulOn(kernel, exec, rows.view().RowRange(first, m), packed, out);
          ASSERT_TRUE(SameBits(ConstMatrix(out), alone.view().RowRange(first, m)))
              << Name(format) << ": " << m << " rows, " << threads << " threads";
        }
      }
    });
  }
}

// One row is not finite, or a neighbour's magnitudes are: the other rows keep their bits.
// MatMul itself deals out panels by its own measure, and rounds rows in scratch that other calls
// use.
TEST(IntegerMatMul, TheDispatcherGivesTheKernelsBits) {
  const int64_t n = 1000, k = 100;
  const TestMatrix rows = TestMatrix::Random(130, k, 6), w = TestMatrix::Random(n, k, 7);
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    Exec exec{pool};
    for (WeightFormat format : kFormats) {
      const PackedWeight packed = Pack(exec, w, format);
      for (const int64_t m : {1, 2, 8, 9, 64, 130}) {
        TestMatrix out(m, n), expected(m, n);
        MatMulOn(IntegerKernelHere(), exec, rows.view().RowRange(0, m), packed, expected);
        MatMul(exec, rows.view().RowRange(0, m), packed, out);
        ASSERT_TRUE(SameBits(ConstMatrix(out), ConstMatrix(expected))) << Name(format) << " " << m;
      }
    }
  }
}

TEST(IntegerMatMul, HostileRowsHarmOnlyThemselves) {
  ThreadPool pool(2);
  Exec exec{pool};
  const int64_t n = 40, k = 200;
  const TestMatrix w = TestMatrix::Random(n, k, 1);
  const TestMatrix good = TestMatrix::Random(1, k, 2);
  for (WeightFormat format : kFormats) {
    const PackedWeight packed = Pack(exec, w, format);
    TestMatrix alone(1, n);
    MatMulOn(IntegerKernelHere(), exec, good, packed, alone);
    TestMatrix x(9, k);
    for (int64_t r = 0; r < 9; ++r) std::copy_n(good.Row(0), k, x.Row(r));
    x.Row(1)[199] = NAN;
    x.Row(3)[0] = INFINITY;
    x.Row(4)[130] = -INFINITY;
    std::fill_n(x.Row(6), k, 0.0f);
    std::fill_n(x.Row(7), k, 1e-42f);  // subnormal
    for (int64_t i = 0; i < k; ++i) x.Row(8)[i] = good.Row(0)[i] * 1e34f;
    ForEachKernel([&](const IntegerKernelEntry& kernel) {
      TestMatrix out(9, n);
      MatMulOn(kernel, exec, x, packed, out);
      for (int64_t c = 0; c < n; ++c) {
        for (int64_t r : {1, 3, 4}) ASSERT_TRUE(std::isnan(out.Row(r)[c])) << r;
        for (int64_t r : {0, 2, 5}) ASSERT_EQ(out.Row(r)[c], alone.Row(0)[c]) << r;
        ASSERT_EQ(out.Row(6)[c], 0.0f);
        ASSERT_EQ(out.Row(7)[c], 0.0f);
        ASSERT_NEAR(out.Row(8)[c] / 1e34f, alone.Row(0)[c], 1e-3f + 1e-4f * k);
      }
    });
  }
}

TEST(IntegerMatMul, ExtremeSumsDoNotSaturate) {
  ThreadPool pool(1);
  Exec exec{pool};
  const int64_t n = 32, k = 4096;
  TestMatrix w(n, k), x(2, k);
  for (int64_t i = 0; i < n * k; ++i) w.view().data[i] = i / k % 2 == 0 ? 1.0f : -1.0f;
  for (int64_t i = 0; i < k; ++i) {
    x.Row(0)[i] = 1;
    x.Row(1)[i] = -1;
  }
  for (WeightFormat format : kFormats) {
    const PackedWeight packed = Pack(exec, w, format);
    ForEachKernel([&](const IntegerKernelEntry& kernel) {
      TestMatrix out(2, n);
      MatMulOn(kernel, exec, x, packed, out);
      for (int64_t c = 0; c < n; ++c) {
        const float expected = c % 2 == 0 ? 4096.0f : -4096.0f;
        ASSERT_NEAR(out.Row(0)[c], expected, 40) << Name(format);
        ASSERT_NEAR(out.Row(1)[c], -expected, 40) << Name(format);
      }
    });
  }
}

}  // namespace
}  // namespace firesteel
