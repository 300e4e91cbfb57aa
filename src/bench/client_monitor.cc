#include "bench/client_monitor.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <ctime>
#include <memory>
#include <thread>

#include "base/clock.h"

namespace firesteel {
namespace {

int64_t ThreadCpuNs() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

// Time this thread was ready to run and did not, by the kernel's own account; -1 where it keeps
// none.
int64_t RunDelayNs() {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen("/proc/thread-self/schedstat", "r"),
                                                   &fclose);
  long long run = 0, delay = 0;
  if (file == nullptr || fscanf(file.get(), "%lld %lld", &run, &delay) != 2) return -1;
  return delay;
}

double Ms(int64_t ns) { return static_cast<double>(ns) * 1e-6; }

}  // namespace

void LagHistogram::Add(int64_t ns) {
  ns = std::max<int64_t>(ns, 0);
  max_ns_ = std::max(max_ns_, ns);
  ++count_;
  const auto value = static_cast<uint64_t>(ns);
  size_t bucket = value;
  if (value >> kSubBits != 0) {
    const int octave = std::bit_width(value) - kSubBits;  // 1 and up
    bucket = (static_cast<size_t>(octave) << kSubBits) +
             static_cast<size_t>((value >> (octave - 1)) - (uint64_t{1} << kSubBits));
  }
  ++buckets_[std::min(bucket, buckets_.size() - 1)];
}

int64_t LagHistogram::Percentile(double percent) const {
  if (count_ == 0) return 0;
  const double wanted = percent / 100 * static_cast<double>(count_);
  int64_t seen = 0;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (static_cast<double>(seen) < wanted || seen == 0) continue;
    const size_t octave = i >> kSubBits;
    if (octave == 0) return static_cast<int64_t>(i);
    const uint64_t low = (i & ((size_t{1} << kSubBits) - 1)) + (uint64_t{1} << kSubBits);
    return std::min(max_ns_, static_cast<int64_t>(((low + 1) << (octave - 1)) - 1));
  }
  return max_ns_;
}

ClientMonitor::ClientMonitor(int64_t now_ns)
    : start_ns_(now_ns),
      next_tick_ns_(now_ns + kTickNs),
      cpu_start_ns_(ThreadCpuNs()),
      delay_start_ns_(RunDelayNs()) {}

void ClientMonitor::OnTurn(int64_t now_ns) {
  for (; next_tick_ns_ <= now_ns; next_tick_ns_ += kTickNs) ticks_.Add(now_ns - next_tick_ns_);
}

ClientHealth ClientMonitor::Finish(int64_t now_ns, int64_t waited_ns, int64_t events) const {
  ClientHealth health;
  health.lag_samples = reads_.count() + ticks_.count();
  // The worse of the two: reads see what the loop's own work costs, ticks what the machine costs.
  health.lag_p50_ms = Ms(std::max(reads_.Percentile(50), ticks_.Percentile(50)));
  health.lag_p99_ms = Ms(std::max(reads_.Percentile(99), ticks_.Percentile(99)));
  health.lag_max_ms = Ms(std::max(reads_.max_ns(), ticks_.max_ns()));
  health.wall_s = SecondsFromNs(now_ns - start_ns_);
  health.busy_s = SecondsFromNs(std::max<int64_t>(0, now_ns - start_ns_ - waited_ns));
  health.cpu_s = SecondsFromNs(ThreadCpuNs() - cpu_start_ns_);
  const int64_t delay_ns = RunDelayNs();
  health.withheld_s = delay_ns >= 0 && delay_start_ns_ >= 0
                          ? SecondsFromNs(delay_ns - delay_start_ns_)
                          : std::max(0.0, health.busy_s - health.cpu_s);
  health.events = events;
  health.cpus = static_cast<int32_t>(std::thread::hardware_concurrency());
  return health;
}

}  // namespace firesteel
