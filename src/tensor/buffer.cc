#include "tensor/buffer.h"

#include <sys/mman.h>

#include <cstring>
#include <vector>

namespace firesteel {

void* AllocateZeroed(size_t bytes) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t alignment = bytes >= 2 * kHugePage ? kHugePage : 64;
  const size_t rounded = std::max<size_t>((bytes + alignment - 1) / alignment * alignment, 64);
  void* data = std::aligned_alloc(alignment, rounded);
  FS_CHECK(data != nullptr, "out of memory: {} bytes", bytes);
#ifdef MADV_HUGEPAGE
  if (alignment == kHugePage) madvise(data, rounded, MADV_HUGEPAGE);  // advice: may fail
#endif
  std::memset(data, 0, rounded);
  return data;
}

// Filled while a step is larger than any before it; the next step's Take finds one buffer large
// enough for all.
struct Workspace::Overflow {
  std::vector<Buffer<std::byte>> pieces;
};

void Workspace::OverflowDelete::operator()(Overflow* o) const { delete o; }

std::byte* Workspace::Take(int64_t bytes) {
  bytes = (bytes + 63) / 64 * 64;
  // Growing moves everything, so only the first Take of a step may: no view is alive yet.
  if (used_ == 0 && needed_ > buffer_.size()) buffer_ = Buffer<std::byte>(needed_);
  const int64_t begin = used_;
  used_ += bytes;
  needed_ = std::max(needed_, used_);
  if (used_ <= buffer_.size()) return buffer_.data() + begin;
  if (overflow_ == nullptr) overflow_.reset(new Overflow);
  overflow_->pieces.emplace_back(bytes);
  return overflow_->pieces.back().data();
}

Matrix<float> Workspace::Floats(int64_t rows, int64_t cols) {
  FS_DCHECK(rows >= 0 && cols >= 0);
  int64_t stride = std::max<int64_t>((cols + 15) / 16 * 16, 16);
  // Rows a multiple of 4 KiB apart would share the sets of the L1 cache.
  if (stride % 1024 == 0) stride += 16;
  return {reinterpret_cast<float*>(Take(rows * stride * static_cast<int64_t>(sizeof(float)))), rows,
          cols, stride};
}

std::span<int32_t> Workspace::Ints(int64_t count) {
  FS_DCHECK(count >= 0);
  return {reinterpret_cast<int32_t*>(Take(count * static_cast<int64_t>(sizeof(int32_t)))),
          static_cast<size_t>(count)};
}

}  // namespace firesteel
