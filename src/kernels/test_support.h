// For the tests of kernels: every SIMD target in turn, and random matrices.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "kernels/convert.h"
#include "kernels/targets-inl.h"
#include "tensor/buffer.h"
#include "tensor/matrix.h"

// before highway.h: the macros above choose its targets
#include "hwy/highway.h"

namespace firesteel {

// Runs `test` once on every target that was compiled and that this machine has.
template <typename Test>
void ForEachTarget(Test test) {
  const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  for (int64_t left = targets; left != 0; left &= left - 1) {
    hwy::SetSupportedTargetsForTest(left & -left);
    SCOPED_TRACE(SimdTargetName());
    test();
  }
  hwy::SetSupportedTargetsForTest(0);
}

// A matrix that owns its elements. With stride > cols the gap holds NaN, which no kernel may touch.
class TestMatrix {
 public:
  TestMatrix(int64_t rows, int64_t cols, int64_t stride = 0)
      : view_(nullptr, rows, cols, stride == 0 ? cols : stride), buffer_(rows * view_.stride) {
    view_.data = buffer_.data();
    for (float& x : buffer_.span()) x = NAN;
  }

  // Roughly normal, from `seed`.
  static TestMatrix Random(int64_t rows, int64_t cols, uint32_t seed, int64_t stride = 0) {
    TestMatrix m(rows, cols, stride);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        const auto bits =
            Philox4x32({static_cast<uint32_t>(r), static_cast<uint32_t>(c), 0, 0}, {seed, 1});
        double sum = -2;
        for (uint32_t b : bits) sum += UniformOpen(b);
        m.view().Row(r)[c] = static_cast<float>(sum * 1.7);
      }
    }
    return m;
  }

  Matrix<float> view() const { return view_; }
  operator Matrix<float>() const { return view_; }        // NOLINT: implicit
  operator Matrix<const float>() const { return view_; }  // NOLINT: implicit
  float* Row(int64_t r) const { return view_.Row(r); }
  int64_t rows() const { return view_.rows; }
  int64_t cols() const { return view_.cols; }

 private:
  Matrix<float> view_;
  Buffer<float> buffer_;
};

inline bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

inline bool SameBits(ConstMatrix a, ConstMatrix b) {
  if (a.rows != b.rows) return false;
  for (int64_t r = 0; r < a.rows; ++r) {
    if (!SameBits(a.RowSpan(r), b.RowSpan(r))) return false;
  }
  return true;
}

// |a - b| <= tolerance everywhere; NaN fails.
inline void ExpectNear(ConstMatrix a, ConstMatrix b, float tolerance) {
  ASSERT_EQ(a.rows, b.rows);
  ASSERT_EQ(a.cols, b.cols);
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t c = 0; c < a.cols; ++c) {
      ASSERT_LE(std::fabs(a.Row(r)[c] - b.Row(r)[c]), tolerance)
          << "at " << r << ", " << c << ": " << a.Row(r)[c] << " and " << b.Row(r)[c];
    }
  }
}

}  // namespace firesteel
