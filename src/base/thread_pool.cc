#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"

namespace firesteel {
namespace {

using RangeFunction = FunctionRef<void(int64_t, int64_t, int)>;

constexpr auto kSpin = std::chrono::microseconds(30);

inline void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until `value` differs from `old` and returns it. Spins first, for a wake through the kernel
// costs about as much as a small kernel takes; sleeps then, for a peer that lost its core would
// otherwise be waited for at full power.
int32_t WaitWhile(const std::atomic<int32_t>& value, int32_t old) {
  const auto deadline = std::chrono::steady_clock::now() + kSpin;
  do {
    for (int i = 0; i < 32; ++i) {
      const int32_t now = value.load(std::memory_order_acquire);
      if (now != old) return now;
      Pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

// Enough pieces for the others to take over what a late thread has not begun.
constexpr int64_t kChunksPerThread = 4;

struct Job {
  int64_t n = 0;
  int64_t grain = 1;
  int64_t chunks = 0;
  const RangeFunction* fn = nullptr;
};

// The chunks of a thread's share that nobody has claimed: 32 bits of the call they belong to, 16 of
// the next chunk, 16 of the end. One word, so that a thread that comes late can neither claim a
// chunk of another call nor one beyond the share.
struct alignas(64) Share {
  std::atomic<uint64_t> word{0};

  void Open(uint32_t epoch, int64_t begin, int64_t end) {
    word.store(uint64_t{epoch} << 32 | static_cast<uint64_t>(begin << 16 | end),
               std::memory_order_release);
  }
  // A chunk, or -1 when none is left or the call is over.
  int64_t Claim(uint32_t epoch) {
    uint64_t now = word.load(std::memory_order_acquire);
    while (now >> 32 == epoch && (now >> 16 & 0xFFFF) < (now & 0xFFFF)) {
      if (word.compare_exchange_weak(now, now + (uint64_t{1} << 16), std::memory_order_acq_rel))
        return static_cast<int64_t>(now >> 16 & 0xFFFF);
    }
    return -1;
  }
};

}  // namespace

struct ThreadPool::Impl {
  explicit Impl(int num_threads)
      : num_threads(num_threads), shares(static_cast<size_t>(num_threads)) {
    threads.reserve(static_cast<size_t>(num_threads) - 1);
    for (int t = 1; t < num_threads; ++t) threads.emplace_back([this, t] { Work(t); });
  }

  ~Impl() {
    ending.store(true, std::memory_order_relaxed);
    epoch.fetch_add(1, std::memory_order_release);
    epoch.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  // The job is written before the shares that announce it, and not again before all its chunks are
  // done; so whoever holds a claim may read it.
  void Run(const Job& next) {
    job = next;
    unfinished.store(static_cast<int32_t>(job.chunks), std::memory_order_relaxed);
    // After 2^31 calls it begins again below zero.
    const auto call =
        static_cast<int32_t>(static_cast<uint32_t>(epoch.load(std::memory_order_relaxed)) + 1);
    for (int t = 0; t < num_threads; ++t) {
      shares[static_cast<size_t>(t)].Open(static_cast<uint32_t>(call), job.chunks * t / num_threads,
                                          job.chunks * (t + 1) / num_threads);
    }
    epoch.store(call, std::memory_order_release);
    epoch.notify_all();
    RunChunks(static_cast<uint32_t>(call), 0);
    for (int32_t left = unfinished.load(std::memory_order_acquire); left != 0;) {
      left = WaitWhile(unfinished, left);
    }
  }

  void Work(int thread) {
    int32_t seen = 0;
    while (true) {
      seen = WaitWhile(epoch, seen);
      if (ending.load(std::memory_order_relaxed)) return;
      RunChunks(static_cast<uint32_t>(seen), thread);
    }
  }

  // First the thread's own share, then what others have left: a thread that lost its core delays
  // the chunk that it is in, not the call.
  void RunChunks(uint32_t call, int thread) {
    for (int i = 0; i < num_threads; ++i) {
      Share& share = shares[static_cast<size_t>((thread + i) % num_threads)];
      for (int64_t chunk; (chunk = share.Claim(call)) >= 0;) {
        const int64_t grains = (job.n + job.grain - 1) / job.grain;
        const int64_t begin = grains * chunk / job.chunks * job.grain;
        const int64_t end = std::min(job.n, grains * (chunk + 1) / job.chunks * job.grain);
        (*job.fn)(begin, end, thread);
        if (unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished.notify_one();
      }
    }
  }

  const int num_threads;
  Job job;
  std::vector<Share> shares;
  std::atomic<bool> ending{false};
  alignas(64) std::atomic<int32_t> epoch{0};       // counts the calls
  alignas(64) std::atomic<int32_t> unfinished{0};  // chunks of the present one
  std::vector<std::thread> threads;
};

ThreadPool::ThreadPool(int num_threads) {
  FS_CHECK(num_threads >= 1 && num_threads <= kMaxThreads, "a pool of {} threads", num_threads);
  impl_ = std::make_unique<Impl>(num_threads);
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::NumThreads() const { return impl_->num_threads; }

void ThreadPool::ParallelFor(int64_t n, int64_t grain, RangeFunction fn) {
  FS_DCHECK(grain >= 1);
  if (n <= 0) return;
  if (n <= grain || impl_->num_threads == 1) {
    fn(0, n, 0);
    return;
  }
  const int64_t grains = (n + grain - 1) / grain;
  impl_->Run({n, grain, std::min(grains, impl_->num_threads * kChunksPerThread), &fn});
}

namespace {

// CPUs that one cgroup-v2 folder grants, or none when it sets no quota. "200000 100000" is two,
// "max 100000" no limit.
std::optional<int> CgroupQuota(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return std::nullopt;
  const double cpus = std::strtod(quota.c_str(), nullptr) / period;
  return static_cast<int>(std::clamp(cpus, 1.0, 65536.0));
}

// The folder below /sys/fs/cgroup that this process is in, "" for the root.
std::string CgroupPath() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::/")) return line.size() == 4 ? "" : line.substr(3);
  }
  return "";
}

}  // namespace

int AvailableCpus() {
  int cpus = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cpus = CPU_COUNT(&set);
  // The tightest quota on the way up to the root holds.
  for (std::string path = CgroupPath();; path.resize(path.rfind('/'))) {
    if (const auto quota = CgroupQuota("/sys/fs/cgroup" + path)) cpus = std::min(cpus, *quota);
    if (path.empty()) break;
  }
  return std::max(cpus, 1);
}

}  // namespace firesteel
