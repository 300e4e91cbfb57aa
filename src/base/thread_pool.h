// A persistent pool that splits an index range. The calling thread is worker 0.
//
// Where the range is cut is fixed by (n, grain, threads) alone; kernels must not let a sum depend
// on it. Every thread has a share of its own, the same for the same arguments, and helps with the
// others' when it is done: who is late delays one piece of its share, not the call. Workers spin
// some tens of microseconds for the next call, then sleep.
//
// ParallelFor may be called from one thread at a time (the engine thread); it does not nest.
#pragma once

#include <cstdint>
#include <memory>

#include "base/function_ref.h"

namespace firesteel {

class ThreadPool {
 public:
  static constexpr int kMaxThreads = 4096;

  explicit ThreadPool(int num_threads);  // REQUIRES: 1 to kMaxThreads
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int NumThreads() const;

  // Calls fn(begin, end, thread) with ranges that cover [0, n) exactly once, cut at multiples of
  // `grain`, and returns when all have returned. A thread may get several ranges, one after
  // another. n <= grain runs on the calling thread.
  void ParallelFor(int64_t n, int64_t grain,
                   FunctionRef<void(int64_t begin, int64_t end, int thread)> fn);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// CPUs that the affinity mask and the cgroup quota leave to this process, at least 1.
int AvailableCpus();

}  // namespace firesteel
