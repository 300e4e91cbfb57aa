#include "kernels/row_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "kernels/convert.h"
#include "kernels/targets-inl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/row_ops.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
// after highway.h, which sets its macros for the target
#include "hwy/contrib/math/math-inl.h"
#include "kernels/partial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace firesteel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Four sums hide the latency of the multiply-add; which element enters which sum depends on n
// alone.
float SumOfSquares(const float* HWY_RESTRICT x, int64_t n) {
  const D d;
  Vec sum0 = hn::Zero(d), sum1 = hn::Zero(d), sum2 = hn::Zero(d), sum3 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    const Vec x0 = hn::LoadU(d, x + i), x1 = hn::LoadU(d, x + i + kLanes);
    const Vec x2 = hn::LoadU(d, x + i + 2 * kLanes), x3 = hn::LoadU(d, x + i + 3 * kLanes);
    sum0 = hn::MulAdd(x0, x0, sum0);
    sum1 = hn::MulAdd(x1, x1, sum1);
    sum2 = hn::MulAdd(x2, x2, sum2);
    sum3 = hn::MulAdd(x3, x3, sum3);
  }
  for (; i < n; i += kLanes) {
    const Vec v = LoadUpTo(x + i, n - i);
    sum0 = hn::MulAdd(v, v, sum0);
  }
  const Vec sum = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

void RmsNormRow(const float* x, const float* w, float eps, float* out, int64_t n) {
  const D d;
  const float mean = SumOfSquares(x, n) / static_cast<float>(n);
  const Vec scale = hn::Set(d, 1.0f / std::sqrt(mean + eps));
  for (int64_t i = 0; i < n; i += kLanes) {
    const Vec scaled = hn::Mul(LoadUpTo(x + i, n - i), scale);
    StoreUpTo(hn::Mul(scaled, LoadUpTo(w + i, n - i)), out + i, n - i);
  }
}

void RopeHead(float* HWY_RESTRICT head, const float* HWY_RESTRICT cosines,
              const float* HWY_RESTRICT sines, int64_t half) {
  for (int64_t i = 0; i < half; i += kLanes) {
    const Vec a = LoadUpTo(head + i, half - i), b = LoadUpTo(head + half + i, half - i);
    const Vec c = LoadUpTo(cosines + i, half - i), s = LoadUpTo(sines + i, half - i);
    StoreUpTo(hn::NegMulAdd(b, s, hn::Mul(a, c)), head + i, half - i);
    StoreUpTo(hn::MulAdd(a, s, hn::Mul(b, c)), head + half + i, half - i);
  }
}

// A head is normed and turned while it lies in L1.
void NormRopeHeads(float* HWY_RESTRICT row, int64_t cols, const float* HWY_RESTRICT w, float eps,
                   const float* HWY_RESTRICT cosines, const float* HWY_RESTRICT sines,
                   int64_t dim) {
  for (int64_t c = 0; c < cols; c += dim) {
    RmsNormRow(row + c, w, eps, row + c, dim);
    RopeHead(row + c, cosines, sines, dim / 2);
  }
}

// Exp is valid up to 104, and at 100 it already is infinite, so that silu is -0 there.
Vec Silu(Vec x) {
  const D d;
  const Vec exp = hn::Exp(d, hn::Min(hn::Neg(x), hn::Set(d, 100.0f)));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), exp));
}

void AddBiasedSiluRow(const float* HWY_RESTRICT y, const float* HWY_RESTRICT bias,
                      float* HWY_RESTRICT x, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) {
    const Vec sum = hn::Add(LoadUpTo(y + i, n - i), LoadUpTo(bias + i, n - i));
    StoreUpTo(hn::Add(LoadUpTo(x + i, n - i), Silu(sum)), x + i, n - i);
  }
}

void SiluMulRow(const float* HWY_RESTRICT gate, const float* HWY_RESTRICT up,
                float* HWY_RESTRICT out, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) {
    const Vec silu = Silu(LoadUpTo(gate + i, n - i));
    StoreUpTo(hn::Mul(silu, LoadUpTo(up + i, n - i)), out + i, n - i);
  }
}

}  // namespace firesteel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace firesteel {
namespace {

double Scaled(const RopeScaling& scaling, double frequency) {
  if (scaling.factor == 1) return frequency;
  const double turns = scaling.original_max_positions * frequency / (2 * std::numbers::pi);
  const double kept = std::clamp(
      (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor), 0.0,
      1.0);
  return kept * frequency + (1 - kept) * frequency / scaling.factor;
}

// Rows that make a share worth waking a thread for.
int64_t Grain(int64_t cols) { return std::max<int64_t>(1, 16384 / std::max<int64_t>(cols, 1)); }

}  // namespace

HWY_EXPORT(RmsNormRow);
HWY_EXPORT(RopeHead);
HWY_EXPORT(NormRopeHeads);
HWY_EXPORT(AddBiasedSiluRow);
HWY_EXPORT(SiluMulRow);

void EmbedTokens(Exec& exec, std::span<const int32_t> tokens, const WeightView& table,
                 Matrix<float> out) {
  FS_DCHECK(out.cols == table.cols && out.rows == static_cast<int64_t>(tokens.size()));
  const auto row_bytes = table.cols * static_cast<int64_t>(SizeOf(table.dtype));
  exec.pool.ParallelFor(out.rows, Grain(out.cols), [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const int32_t token = tokens[static_cast<size_t>(t)];
      FS_DCHECK(token >= 0 && token < table.rows);
      const WeightView row{table.data + token * row_bytes, table.dtype, 1, table.cols, {}};
      FS_CHECK(WidenToF32(row, out.RowSpan(t)), "embedding {} is {}", table.name,
               Name(table.dtype));
    }
  });
}

void RmsNorm(Exec& exec, ConstMatrix x, std::span<const float> w, float eps, Matrix<float> out) {
  FS_DCHECK(x.cols == static_cast<int64_t>(w.size()) && x.cols == out.cols && x.rows == out.rows);
  exec.pool.ParallelFor(x.rows, Grain(x.cols), [&](int64_t begin, int64_t end, int) {
    const auto norm = HWY_DYNAMIC_DISPATCH(RmsNormRow);
    for (int64_t r = begin; r < end; ++r) norm(x.Row(r), w.data(), eps, out.Row(r), x.cols);
  });
}

void HeadRmsNormInPlace(Exec& exec, Matrix<float> x, std::span<const float> w, float eps) {
  const auto dim = static_cast<int64_t>(w.size());
  FS_DCHECK(dim > 0 && x.cols % dim == 0);
  exec.pool.ParallelFor(x.rows, Grain(x.cols), [&](int64_t begin, int64_t end, int) {
    const auto norm = HWY_DYNAMIC_DISPATCH(RmsNormRow);
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t c = 0; c < x.cols; c += dim)
        norm(x.Row(r) + c, w.data(), eps, x.Row(r) + c, dim);
    }
  });
}

RopeTable::RopeTable(int32_t head_dim, double theta, int32_t max_positions,
                     const RopeScaling& scaling)
    : head_dim_(head_dim),
      max_positions_(max_positions),
      table_(int64_t{max_positions} * head_dim) {
  FS_CHECK(head_dim % 2 == 0, "rope turns pairs, and a head of {} has none", head_dim);
  const int32_t half = head_dim / 2;
  for (int32_t i = 0; i < half; ++i) {
    const double frequency = Scaled(scaling, std::pow(theta, -2.0 * i / head_dim));
    for (int64_t p = 0; p < max_positions; ++p) {
      const double angle = static_cast<double>(p) * frequency;
      table_.data()[p * head_dim + i] = static_cast<float>(std::cos(angle));
      table_.data()[p * head_dim + half + i] = static_cast<float>(std::sin(angle));
    }
  }
}

void RopeInPlace(Exec& exec, Matrix<float> x, std::span<const int32_t> positions,
                 const RopeTable& table) {
  const int64_t dim = table.head_dim();
  FS_DCHECK(x.cols % dim == 0 && x.rows == static_cast<int64_t>(positions.size()));
  exec.pool.ParallelFor(x.rows, Grain(x.cols), [&](int64_t begin, int64_t end, int) {
    const auto rope = HWY_DYNAMIC_DISPATCH(RopeHead);
    for (int64_t r = begin; r < end; ++r) {
      const int32_t position = positions[static_cast<size_t>(r)];
      FS_DCHECK(position >= 0 && position < table.max_positions());
      for (int64_t c = 0; c < x.cols; c += dim) {
        rope(x.Row(r) + c, table.Cos(position), table.Sin(position), dim / 2);
      }
    }
  });
}

void NormRopeInPlace(Exec& exec, std::span<const HeadRows> parts, float eps,
                     std::span<const int32_t> positions, const RopeTable& table) {
  const int64_t dim = table.head_dim();
  int64_t cols = 0;
  for (const HeadRows& part : parts) {
    FS_DCHECK(part.x.cols % dim == 0 && static_cast<int64_t>(part.w.size()) == dim &&
              part.x.rows == static_cast<int64_t>(positions.size()));
    cols += part.x.cols;
  }
  const auto rows = static_cast<int64_t>(positions.size());
  exec.pool.ParallelFor(rows, Grain(cols), [&](int64_t begin, int64_t end, int) {
    const auto heads = HWY_DYNAMIC_DISPATCH(NormRopeHeads);
    for (int64_t r = begin; r < end; ++r) {
      const int32_t position = positions[static_cast<size_t>(r)];
      FS_DCHECK(position >= 0 && position < table.max_positions());
      for (const HeadRows& part : parts) {
        heads(part.x.Row(r), part.x.cols, part.w.data(), eps, table.Cos(position),
              table.Sin(position), dim);
      }
    }
  });
}

void AddBiasedSilu(Exec& exec, ConstMatrix y, std::span<const float> bias, Matrix<float> x) {
  FS_DCHECK(y.cols == x.cols && y.rows == x.rows && x.cols == static_cast<int64_t>(bias.size()));
  exec.pool.ParallelFor(x.rows, Grain(x.cols * 4), [&](int64_t begin, int64_t end, int) {
    const auto add = HWY_DYNAMIC_DISPATCH(AddBiasedSiluRow);
    for (int64_t r = begin; r < end; ++r) add(y.Row(r), bias.data(), x.Row(r), x.cols);
  });
}

void SiluMul(Exec& exec, ConstMatrix gate_up, Matrix<float> out) {
  FS_DCHECK(gate_up.cols == 2 * out.cols && gate_up.rows == out.rows);
  exec.pool.ParallelFor(out.rows, Grain(out.cols * 4), [&](int64_t begin, int64_t end, int) {
    const auto silu = HWY_DYNAMIC_DISPATCH(SiluMulRow);
    for (int64_t r = begin; r < end; ++r) {
      silu(gate_up.Row(r), gate_up.Row(r) + out.cols, out.Row(r), out.cols);
    }
  });
}

}  // namespace firesteel
#endif  // HWY_ONCE
