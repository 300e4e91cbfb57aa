#include "kernels/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/convert.h"

namespace firesteel::reference {
namespace {

// The finite value in bits [0, count) that is nearest to |value|; of two equally near the one with
// an even last bit. `decode` must grow with its argument.
template <typename Decode>
uint32_t NearestBits(double magnitude, uint32_t count, Decode decode) {
  uint32_t low = 0, high = count - 1;  // decode(low) <= magnitude, unless all are larger
  while (low < high) {
    const uint32_t middle = (low + high + 1) / 2;
    if (decode(middle) <= magnitude) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  if (low + 1 == count) return low;
  const double below = magnitude - decode(low);
  const double above = decode(low + 1) - magnitude;
  if (below != above) return below < above ? low : low + 1;
  return low % 2 == 0 ? low : low + 1;
}

}  // namespace

uint16_t F32ToBF16(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7FC0;
  // Infinity takes the place of 2^128, the value that would follow the largest.
  const auto decode = [](uint32_t bits) {
    if (bits == 0x7F80) return 0x1p128;
    return static_cast<double>(std::bit_cast<float>(bits << 16));
  };
  const double magnitude = std::isinf(value) ? 0x1p128 : std::fabs(static_cast<double>(value));
  return static_cast<uint16_t>(sign | NearestBits(magnitude, 0x7F81, decode));
}

float F8E4M3ToF32(uint8_t bits) {
  const int exponent = bits >> 3 & 15;
  const int mantissa = bits & 7;
  double value = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  if (exponent == 15 && mantissa == 7) value = std::numeric_limits<double>::quiet_NaN();
  return static_cast<float>(bits & 0x80 ? -value : value);
}

uint8_t F32ToF8E4M3(float value) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return sign | 0x7F;
  const auto decode = [](uint32_t bits) {
    return static_cast<double>(reference::F8E4M3ToF32(static_cast<uint8_t>(bits)));
  };
  return static_cast<uint8_t>(sign |
                              NearestBits(std::fabs(static_cast<double>(value)), 0x7F, decode));
}

std::vector<float> Widen(const WeightView& weight) {
  std::vector<float> wide(static_cast<size_t>(weight.rows * weight.cols));
  FS_CHECK(WidenToF32(weight, wide), "{} cannot be widened", weight.name);
  return wide;
}

void MatMul(ConstMatrix x, ConstMatrix w, Matrix<float> out) {
  for (int64_t m = 0; m < x.rows; ++m) {
    for (int64_t n = 0; n < w.rows; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < x.cols; ++k) sum += double{x.Row(m)[k]} * w.Row(n)[k];
      out.Row(m)[n] = static_cast<float>(sum);
    }
  }
}

void RmsNorm(ConstMatrix x, std::span<const float> w, float eps, Matrix<float> out) {
  for (int64_t r = 0; r < x.rows; ++r) {
    double squares = 0;
    for (float v : x.RowSpan(r)) squares += double{v} * v;
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.cols) + eps);
    for (int64_t c = 0; c < x.cols; ++c) {
      out.Row(r)[c] = static_cast<float>(x.Row(r)[c] * scale * w[static_cast<size_t>(c)]);
    }
  }
}

void RopeInPlace(Matrix<float> x, std::span<const int32_t> positions, int32_t head_dim,
                 double theta) {
  const int32_t half = head_dim / 2;
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t head = 0; head < x.cols / head_dim; ++head) {
      float* v = x.Row(r) + head * head_dim;
      for (int32_t i = 0; i < half; ++i) {
        const double angle =
            positions[static_cast<size_t>(r)] * std::pow(theta, -2.0 * i / head_dim);
        const double a = v[i], b = v[i + half];
        v[i] = static_cast<float>(a * std::cos(angle) - b * std::sin(angle));
        v[i + half] = static_cast<float>(b * std::cos(angle) + a * std::sin(angle));
      }
    }
  }
}

void SiluMul(ConstMatrix gate_up, Matrix<float> out) {
  for (int64_t r = 0; r < out.rows; ++r) {
    for (int64_t c = 0; c < out.cols; ++c) {
      const double gate = gate_up.Row(r)[c];
      out.Row(r)[c] =
          static_cast<float>(gate / (1.0 + std::exp(-gate)) * gate_up.Row(r)[out.cols + c]);
    }
  }
}

void Attention(const AttentionInput& input, Matrix<float> out) {
  const int64_t dim = input.head_dim;
  const int64_t heads = input.q.cols / dim;
  const int64_t group = heads / (input.keys.cols / dim);
  for (int64_t r = 0; r < input.q.rows; ++r) {
    const int64_t cached = input.context + (input.causal ? r + 1 : 0);
    const int64_t window_begin = std::max<int64_t>(0, input.context + r - input.window + 1);
    const int64_t first = input.window > 0 ? std::min(window_begin, cached) : 0;
    const int64_t seen = cached + input.tail_keys.rows;
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t column = h / group * dim;
      const auto row_of = [&](const ConstMatrix& cache, const ConstMatrix& tail, int64_t i) {
        return (i < cached ? cache.Row(i) : tail.Row(i - cached)) + column;
      };
      std::vector<double> scores(static_cast<size_t>(seen));
      double largest = input.sinks.empty() ? -std::numeric_limits<double>::infinity()
                                           : input.sinks[static_cast<size_t>(h)];
      for (int64_t i = first; i < seen; ++i) {
        const float* key = row_of(input.keys, input.tail_keys, i);
        double dot = 0;
        for (int64_t d = 0; d < dim; ++d) dot += double{input.q.Row(r)[h * dim + d]} * key[d];
        scores[static_cast<size_t>(i)] = dot * input.scale;
        largest = std::max(largest, dot * input.scale);
      }
      double total =
          input.sinks.empty() ? 0 : std::exp(input.sinks[static_cast<size_t>(h)] - largest);
      std::vector<double> sums(static_cast<size_t>(dim), 0.0);
      for (int64_t i = first; i < seen; ++i) {
        const double p = std::exp(scores[static_cast<size_t>(i)] - largest);
        const float* value = row_of(input.values, input.tail_values, i);
        total += p;
        for (int64_t d = 0; d < dim; ++d) sums[static_cast<size_t>(d)] += p * value[d];
      }
      for (int64_t d = 0; d < dim; ++d) {
        const double mean = total == 0 ? 0 : sums[static_cast<size_t>(d)] / total;
        out.Row(r)[h * dim + d] = static_cast<float>(mean);
      }
    }
  }
}

}  // namespace firesteel::reference
