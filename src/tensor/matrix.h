// Row-major views. They look and never own; copying one copies three words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/check.h"

namespace firesteel {

template <typename T>
struct Matrix {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  // elements from one row to the next, >= cols

  Matrix() = default;
  Matrix(T* data, int64_t rows, int64_t cols) : Matrix(data, rows, cols, cols) {}
  Matrix(T* data, int64_t rows, int64_t cols, int64_t stride)
      : data(data), rows(rows), cols(cols), stride(stride) {}
  // A view that may write is also one that may only read.
  template <typename U, typename = std::enable_if_t<std::is_same_v<const U, T>>>
  Matrix(const Matrix<U>& m) : Matrix(m.data, m.rows, m.cols, m.stride) {}  // NOLINT: implicit

  T* Row(int64_t r) const {
    FS_DCHECK(r >= 0 && r < rows);
    return data + r * stride;
  }
  std::span<T> RowSpan(int64_t r) const { return {Row(r), static_cast<size_t>(cols)}; }
  Matrix RowRange(int64_t begin, int64_t count) const {
    FS_DCHECK(begin >= 0 && begin + count <= rows);
    return {data + begin * stride, count, cols, stride};
  }
  Matrix ColRange(int64_t begin, int64_t count) const {
    FS_DCHECK(begin >= 0 && begin + count <= cols);
    return {data + begin, rows, count, stride};
  }
};

using ConstMatrix = Matrix<const float>;

}  // namespace firesteel
