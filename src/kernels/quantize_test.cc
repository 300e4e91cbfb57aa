#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/quantize_internal.h"
#include "kernels/test_support.h"

namespace firesteel {
namespace {

constexpr WeightFormat kFormats[] = {WeightFormat::kInt8, WeightFormat::kInt8Group,
                                     WeightFormat::kInt4};
constexpr int64_t kPanel = PackedWeight::kPanel;

Buffer<std::byte> Quantize(WeightFormat format, ConstMatrix rows) {
  Buffer<std::byte> panel(PanelBytes(format, rows.cols));
  QuantizePanel(format, rows, panel.data());
  return panel;
}

float FloatAt(const std::byte* p) {
  float value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

// Element k of feature n, from the description in quantize_internal.h.
float Dequantize(WeightFormat format, const Buffer<std::byte>& panel, int64_t n, int64_t k) {
  const int64_t chunk = k / kChunk, within = k % kChunk;
  const std::byte* p = panel.data();
  if (format == WeightFormat::kInt4) {
    const std::byte* head = p + kScaleBytes + chunk * kInt4ChunkBytes;
    const std::byte word =
        head[kInt4HeadBytes + within / 8 * kStepBytes + n * 4 + kNibbleOrder[within % 8] / 2];
    const int q = std::to_integer<int>(word) >> kNibbleOrder[within % 8] % 2 * 4 & 15;
    const int zero = std::to_integer<int>(head[kPanel + n]);
    return FloatAt(p + n * 4) * Int4Scale(std::to_integer<uint8_t>(head[n])) *
           static_cast<float>(16 * q - zero);
  }
  if (format == WeightFormat::kInt8Group) {
    p += chunk / kBlockChunks * (kScaleBytes + kBlockChunks * kInt8ChunkBytes);
  }
  const int64_t chunk_here = format == WeightFormat::kInt8Group ? chunk % kBlockChunks : chunk;
  const std::byte byte =
      p[kScaleBytes + chunk_here * kInt8ChunkBytes + within / 4 * kStepBytes + n * 4 + within % 4];
  return FloatAt(p + n * 4) * static_cast<float>(std::to_integer<int>(byte) - 128);
}

// Where the scale of (n, k) reaches: its elements' extremes decide the largest error.
int64_t GroupSize(WeightFormat format, int64_t cols) {
  if (format == WeightFormat::kInt4) return kChunk;
  return format == WeightFormat::kInt8 ? std::max<int64_t>(cols, 1) : kChunk * kBlockChunks;
}

TEST(QuantizePanel, SizesAreSmall) {
  EXPECT_EQ(PanelBytes(WeightFormat::kInt8, 2048), 32 * 2048 + 128);
  EXPECT_EQ(PanelBytes(WeightFormat::kInt8Group, 2048), 32 * (2048 + 16 * 4));
  EXPECT_EQ(PanelBytes(WeightFormat::kInt4, 2048), 32 * 2048 / 16 * 9 + 128);  // 4.5 bits
  for (WeightFormat format : kFormats) EXPECT_EQ(PanelBytes(format, 77) % 64, 0);
}

TEST(QuantizePanel, ErrorStaysWithinAStep) {
  for (WeightFormat format : kFormats) {
    for (int64_t rows : {1, 31, 32}) {
      for (int64_t cols : {1, 5, 32, 100, 128, 130, 256}) {
        const TestMatrix w = TestMatrix::Random(rows, cols, static_cast<uint32_t>(cols), cols + 1);
        const Buffer<std::byte> panel = Quantize(format, w);
        const int64_t size = GroupSize(format, cols);
        for (int64_t n = 0; n < rows; ++n) {
          for (int64_t begin = 0; begin < cols; begin += size) {
            const int64_t end = std::min(begin + size, cols);
            float low = 0, high = 0;
            for (int64_t k = begin; k < end; ++k) {
              low = std::min(low, w.Row(n)[k]);
              high = std::max(high, w.Row(n)[k]);
            }
            // int4 may clip, to a quarter of the range less, where that makes the sum of squares
            // smaller.
            const float bound = format == WeightFormat::kInt4
                                    ? (high - low) * (0.5f / 15 + 0.15f)
                                    : std::max(high, -low) * (0.5f / 127 + 1e-6f);
            for (int64_t k = begin; k < end; ++k) {
              ASSERT_NEAR(Dequantize(format, panel, n, k), w.Row(n)[k], bound)
                  << Name(format) << " at " << n << ", " << k << " of " << rows << " x " << cols;
            }
          }
        }
        for (int64_t n = rows; n < kPanel; ++n) {
          for (int64_t k = 0; k < cols; ++k) ASSERT_EQ(Dequantize(format, panel, n, k), 0.0f);
        }
      }
    }
  }
}

// The search for the scale is worth its time: better than the plain covering of the range.
TEST(QuantizePanel, Int4BeatsPlainRounding) {
  const TestMatrix w = TestMatrix::Random(32, 1024, 11);
  const Buffer<std::byte> panel = Quantize(WeightFormat::kInt4, w);
  double ours = 0, plain = 0;
  for (int64_t n = 0; n < 32; ++n) {
    for (int64_t begin = 0; begin < 1024; begin += kChunk) {
      const auto [low, high] = std::minmax_element(w.Row(n) + begin, w.Row(n) + begin + kChunk);
      const float step = (*high - *low) / 15;
      for (int64_t k = begin; k < begin + kChunk; ++k) {
        const double rounded = *low + step * std::nearbyint((w.Row(n)[k] - *low) / step);
        plain += std::pow(rounded - w.Row(n)[k], 2);
        ours += std::pow(Dequantize(WeightFormat::kInt4, panel, n, k) - w.Row(n)[k], 2);
      }
    }
  }
  std::printf("int4 squared error %.2f of plain rounding's %.2f\n", ours, plain);
  EXPECT_LT(ours, 0.92 * plain);
}

TEST(QuantizePanel, ConstantAndZeroGroups) {
  TestMatrix w(3, 300);
  for (int64_t k = 0; k < 300; ++k) {
    w.Row(0)[k] = 0.75f;
    w.Row(1)[k] = -3.0f;
    w.Row(2)[k] = k / 64 % 2 == 0 ? 0.0f : static_cast<float>(k % 5) - 2;
  }
  for (WeightFormat format : kFormats) {
    const Buffer<std::byte> panel = Quantize(format, w);
    for (int64_t k = 0; k < 300; ++k) {
      ASSERT_NEAR(Dequantize(format, panel, 0, k), 0.75f, 0.75f * 0.02f) << Name(format);
      ASSERT_NEAR(Dequantize(format, panel, 1, k), -3.0f, 3.0f * 0.02f) << Name(format);
      if (k / 64 % 2 == 0 && k < 288) {
        ASSERT_EQ(Dequantize(format, panel, 2, k), 0) << k;
      }
    }
  }
}

TEST(QuantizePanel, HugeAndTinyMagnitudes) {
  TestMatrix w = TestMatrix::Random(6, 160, 4);
  const float scales[] = {1e-36f, 1e-20f, 1e20f, 7e37f, 1.0f, 0.0f};
  for (int64_t n = 0; n < 6; ++n) {
    for (int64_t k = 0; k < 160; ++k) w.Row(n)[k] *= scales[n];
  }
  for (WeightFormat format : kFormats) {
    const Buffer<std::byte> panel = Quantize(format, w);
    for (int64_t n = 0; n < 6; ++n) {
      for (int64_t k = 0; k < 160; ++k) {
        const float value = Dequantize(format, panel, n, k);
        ASSERT_TRUE(std::isfinite(value));
        // the first counts as zero
        const float expected = n == 0 ? 0 : w.Row(n)[k];
        ASSERT_NEAR(value / std::max(scales[n], 1e-30f), expected / std::max(scales[n], 1e-30f), 1)
            << Name(format) << " row " << n;
      }
    }
  }
}

TEST(QuantizePanel, ARowThatIsNotFiniteHarmsOnlyItself) {
  TestMatrix w = TestMatrix::Random(4, 200, 5);
  TestMatrix bad = TestMatrix::Random(4, 200, 5);
  bad.Row(1)[7] = NAN;
  bad.Row(3)[199] = -INFINITY;
  for (WeightFormat format : kFormats) {
    const Buffer<std::byte> good_panel = Quantize(format, w), bad_panel = Quantize(format, bad);
    for (int64_t k = 0; k < 200; ++k) {
      for (int64_t n : {0, 2}) {
        ASSERT_EQ(Dequantize(format, bad_panel, n, k), Dequantize(format, good_panel, n, k));
      }
    }
    EXPECT_TRUE(std::isnan(Dequantize(format, bad_panel, 1, 0)));
    EXPECT_TRUE(std::isnan(Dequantize(format, bad_panel, 3, 199)));
  }
}

// A checkpoint packs to the same bytes on every machine, else tokens would depend on it.
TEST(QuantizePanel, SameBytesOnEveryTarget) {
  for (WeightFormat format : kFormats) {
    for (int64_t cols : {33, 256, 640}) {
      const TestMatrix w = TestMatrix::Random(32, cols, 21);
      const Buffer<std::byte> expected = Quantize(format, w);
      ForEachTarget([&] {
        ASSERT_TRUE(std::ranges::equal(Quantize(format, w).span(), expected.span()))
            << Name(format);
      });
    }
  }
}

}  // namespace
}  // namespace firesteel
