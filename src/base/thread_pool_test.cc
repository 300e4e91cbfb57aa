#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace firesteel {
namespace {

TEST(ThreadPool, CoversEveryIndexOnce) {
  for (int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.NumThreads(), threads);
    for (int64_t n : {0, 1, 2, 5, 16, 17, 100, 1001}) {
      for (int64_t grain : {1, 3, 16, 2000}) {
        std::vector<int> visits(static_cast<size_t>(n),
                                0);  // disjoint ranges: no two threads share one
        pool.ParallelFor(n, grain, [&](int64_t begin, int64_t end, int thread) {
          ASSERT_LT(begin, end);
          ASSERT_EQ(begin % grain, 0);
          ASSERT_TRUE(end % grain == 0 || end == n);
          ASSERT_GE(thread, 0);
          ASSERT_LT(thread, threads);
          for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
        });
        for (int count : visits) ASSERT_EQ(count, 1);
      }
    }
  }
}

TEST(ThreadPool, OneGrainRunsOnTheCaller) {
  ThreadPool pool(4);
  std::thread::id ran_on;
  pool.ParallelFor(8, 8, [&](int64_t, int64_t, int) { ran_on = std::this_thread::get_id(); });
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST(ThreadPool, CutsTheSameWayEveryTime) {
  ThreadPool pool(3);
  const auto cuts = [&] {
    std::mutex mutex;
    std::set<std::pair<int64_t, int64_t>> ranges;
    pool.ParallelFor(100, 8, [&](int64_t begin, int64_t end, int) {
      const std::lock_guard lock(mutex);
      ranges.emplace(begin, end);
    });
    return ranges;
  };
  const auto first = cuts();
  EXPECT_GT(first.size(), 3u);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(cuts(), first);
}

// One range is held until all others are done: whoever else there is must take them over.
TEST(ThreadPool, ALateThreadDelaysOneRangeOnly) {
  for (const int threads : {2, 4}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 50; ++round) {
      std::atomic<int64_t> done = 0;
      std::atomic<bool> holding = false;
      pool.ParallelFor(64, 1, [&](int64_t begin, int64_t end, int) {
        if (!holding.exchange(true)) {
          const int64_t others = 64 - (end - begin);
          while (done < others) std::this_thread::yield();
        }
        done += end - begin;
      });
      ASSERT_EQ(done, 64);
    }
  }
}

// Plain memory written by the workers must be visible to the caller, call after call, and the other
// way round.
TEST(ThreadPool, OrdersMemoryBetweenCalls) {
  ThreadPool pool(3);
  std::vector<int64_t> values(64, 0);
  for (int round = 0; round < 5000; ++round) {
    pool.ParallelFor(64, 4, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) ++values[static_cast<size_t>(i)];
    });
    std::rotate(values.begin(), values.begin() + 5, values.end());
  }
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), int64_t{0}), 64 * 5000);
}

// Long enough between calls that the workers have gone to sleep for some of them.
TEST(ThreadPool, WakesSleepers) {
  ThreadPool pool(2);
  for (int round = 0; round < 50; ++round) {
    volatile uint32_t spin = 0;
    for (int i = 0; i < 200'000; ++i) spin = spin + 1;
    int64_t sums[2] = {};
    pool.ParallelFor(10, 1, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t i = begin; i < end; ++i) sums[thread] += i;
    });
    ASSERT_EQ(sums[0] + sums[1], 45);
  }
}

TEST(ThreadPool, StartsAndEndsUnused) {
  for (int i = 0; i < 50; ++i) ThreadPool pool(1 + i % 5);
}

TEST(AvailableCpus, IsBetweenOneAndTheMachine) {
  EXPECT_GE(AvailableCpus(), 1);
  EXPECT_LE(AvailableCpus(), std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
}

}  // namespace
}  // namespace firesteel
