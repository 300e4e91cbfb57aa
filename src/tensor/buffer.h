// Owned memory, 64-byte aligned and zeroed, for weights, caches and scratch. Movable, not copyable.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <type_traits>

#include "tensor/matrix.h"

namespace firesteel {

// Never null; freed with std::free. Large blocks ask for huge pages: a pass over the weights would
// otherwise wait for the TLB.
void* AllocateZeroed(size_t bytes);

template <typename T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t size)
      : data_(static_cast<T*>(AllocateZeroed(static_cast<size_t>(size) * sizeof(T)))),
        size_(size) {}

  T* data() const { return data_.get(); }
  int64_t size() const { return size_; }
  std::span<T> span() const { return {data_.get(), static_cast<size_t>(size_)}; }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  std::unique_ptr<T, Free> data_;
  int64_t size_ = 0;
};

// Scratch of one step: a bump allocator over one buffer. Reset at the start of a forward pass,
// views die with the next Reset. Grows only when a larger step than any before comes (warm-up
// reaches the largest), so a step in steady state does not allocate.
//
// Engine thread only.
class Workspace {
 public:
  void Reset() {
    used_ = 0;
    overflow_.reset();
  }
  // Contents are undefined. Row strides are padded to 16 floats and away from multiples of 4 KiB
  // (rows would share L1 sets).
  Matrix<float> Floats(int64_t rows, int64_t cols);
  std::span<int32_t> Ints(int64_t count);
  // Value-initialized objects that need no destructor.
  template <typename T>
  std::span<T> Array(int64_t count) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= 64);
    auto* first = reinterpret_cast<T*>(Take(count * static_cast<int64_t>(sizeof(T))));
    std::uninitialized_value_construct_n(first, count);
    return {first, static_cast<size_t>(count)};
  }

 private:
  std::byte* Take(int64_t bytes);

  struct Overflow;
  struct OverflowDelete {
    void operator()(Overflow* o) const;
  };
  Buffer<std::byte> buffer_;
  int64_t used_ = 0;
  int64_t needed_ = 0;  // high-water mark of a whole step
  std::unique_ptr<Overflow, OverflowDelete>
      overflow_;  // what did not fit into buffer_ in this step
};

}  // namespace firesteel
