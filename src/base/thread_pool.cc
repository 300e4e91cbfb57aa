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

struct Job {
  int64_t n = 0;
  int64_t grain = 1;
  std::optional<RangeFunction> fn;  // none: end the thread
};

void RunShare(const Job& job, int thread, int num_threads) {
  const int64_t grains = (job.n + job.grain - 1) / job.grain;
  const int64_t begin = grains * thread / num_threads * job.grain;
  const int64_t end = std::min(job.n, grains * (thread + 1) / num_threads * job.grain);
  if (begin < end) (*job.fn)(begin, end, thread);
}

}  // namespace

struct ThreadPool::Impl {
  explicit Impl(int num_threads) : num_threads(num_threads) {
    threads.reserve(static_cast<size_t>(num_threads) - 1);
    for (int t = 1; t < num_threads; ++t) threads.emplace_back([this, t] { Work(t); });
  }

  ~Impl() {
    Publish(Job());
    for (std::thread& thread : threads) thread.join();
  }

  // The job is written before the epoch that announces it, and read after it.
  void Publish(const Job& next) {
    job = next;
    running.store(num_threads - 1, std::memory_order_relaxed);
    epoch.fetch_add(1, std::memory_order_release);
    epoch.notify_all();
  }

  void Work(int thread) {
    int32_t seen = 0;
    while (true) {
      seen = WaitWhile(epoch, seen);
      if (!job.fn) return;
      RunShare(job, thread, num_threads);
      if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) running.notify_one();
    }
  }

  const int num_threads;
  Job job;
  alignas(64) std::atomic<int32_t> epoch{0};
  alignas(64) std::atomic<int32_t> running{0};  // workers that have not finished this epoch
  std::vector<std::thread> threads;
};

ThreadPool::ThreadPool(int num_threads) {
  FS_CHECK(num_threads >= 1, "a pool of {} threads", num_threads);
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
  impl_->Publish({n, grain, fn});
  RunShare(impl_->job, 0, impl_->num_threads);
  for (int32_t left = impl_->running.load(std::memory_order_acquire); left != 0;) {
    left = WaitWhile(impl_->running, left);
  }
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
