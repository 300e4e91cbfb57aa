// What this machine can do at most, measured beside what is held against it.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "tensor/buffer.h"

namespace firesteel {

// More than any cache holds, so that each call reads from memory.
class ReadCeiling {
 public:
  static constexpr int64_t kBytesPerCall = int64_t{32} << 20;

  explicit ReadCeiling(int64_t buffer_bytes = int64_t{640} << 20);
  void Run(ThreadPool& pool);  // reads the next kBytesPerCall of the buffer, round and round

 private:
  Buffer<std::byte> buffer_;
  int64_t next_ = 0;
};

// Multiply-adds of float32 in registers on every thread; returns how many.
double RunFmaCeiling(ThreadPool& pool);
// The same of integers, with the instructions that the kernels use (integer_peak.h).
double RunIntegerCeiling(ThreadPool& pool);

}  // namespace firesteel
