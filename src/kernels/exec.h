// What a kernel runs on. Passed by reference through every forward pass; a GPU backend would put
// its stream here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"
#include "tensor/buffer.h"

namespace firesteel {

// One engine thread uses an Exec at a time.
class Exec {
 public:
  Exec(ThreadPool& pool) : pool(pool) {}  // NOLINT: implicit

  // Scratch of one kernel call, 64-byte aligned, contents undefined; the next call of any kernel
  // overwrites it. Grows to the largest request, so a step in steady state does not allocate.
  std::byte* Scratch(int64_t bytes) {
    if (bytes > scratch_.size()) scratch_ = Buffer<std::byte>(bytes + bytes / 4);
    return scratch_.data();
  }

  ThreadPool& pool;

 private:
  Buffer<std::byte> scratch_;
};

}  // namespace firesteel
