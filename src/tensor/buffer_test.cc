#include "tensor/buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace firesteel {
namespace {

bool Aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 64 == 0; }

TEST(Buffer, IsAlignedZeroedAndMovable) {
  Buffer<float> buffer(17);
  EXPECT_TRUE(Aligned(buffer.data()));
  EXPECT_EQ(buffer.size(), 17);
  for (float x : buffer.span()) EXPECT_EQ(x, 0.0f);
  const float* data = buffer.data();
  const Buffer<float> moved = std::move(buffer);
  EXPECT_EQ(moved.data(), data);
  EXPECT_NE(Buffer<int>(0).data(), nullptr);
  EXPECT_EQ(Buffer<int>().data(), nullptr);
}

TEST(Workspace, PadsRows) {
  Workspace workspace;
  for (int64_t cols : {1, 16, 17, 1000, 1024, 2048, 3072, 4096}) {
    const Matrix<float> m = workspace.Floats(3, cols);
    EXPECT_EQ(m.rows, 3);
    EXPECT_EQ(m.cols, cols);
    EXPECT_GE(m.stride, cols);
    EXPECT_LE(m.stride, cols + 31);
    EXPECT_EQ(m.stride % 16, 0);
    EXPECT_NE(m.stride % 1024, 0);
    EXPECT_TRUE(Aligned(m.data));
  }
}

// Views of one step never overlap, neither in the first step (which overflows) nor in later ones.
TEST(Workspace, ViewsAreDisjoint) {
  Workspace workspace;
  for (int step = 0; step < 3; ++step) {
    workspace.Reset();
    const Matrix<float> a = workspace.Floats(5, 100);
    const std::span<int32_t> b = workspace.Ints(33);
    const Matrix<float> c = workspace.Floats(2, 1024);
    for (int64_t r = 0; r < a.rows; ++r) std::fill_n(a.Row(r), a.stride, 1.0f);
    std::fill(b.begin(), b.end(), 2);
    for (int64_t r = 0; r < c.rows; ++r) std::fill_n(c.Row(r), c.stride, 3.0f);
    for (int64_t r = 0; r < a.rows; ++r) {
      for (float x : a.RowSpan(r)) ASSERT_EQ(x, 1.0f);
    }
    for (int32_t x : b) ASSERT_EQ(x, 2);
    for (int64_t r = 0; r < c.rows; ++r) {
      for (float x : c.RowSpan(r)) ASSERT_EQ(x, 3.0f);
    }
  }
}

TEST(Workspace, SettlesInOneBuffer) {
  Workspace workspace;
  const auto step = [&](int64_t rows) {
    workspace.Reset();
    const float* first = workspace.Floats(rows, 64).data;
    const float* second = workspace.Floats(rows, 64).data;
    return std::pair(first, second);
  };
  step(8);
  const auto settled = step(8);
  EXPECT_EQ(settled.second - settled.first, 8 * 64);
  for (int64_t rows : {8, 3, 1, 8}) EXPECT_EQ(step(rows).first, settled.first);
  step(100);
  const auto larger = step(100);
  EXPECT_EQ(larger.second - larger.first, 100 * 64);
}

}  // namespace
}  // namespace firesteel
