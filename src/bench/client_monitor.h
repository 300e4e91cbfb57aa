// Watches the load generator's own thread: how late it sees what arrives, how much processor it
// uses, and how much it was kept from using.
//
// One thread only: the one that is watched.
#pragma once

#include <array>
#include <cstdint>

#include "bench/run_result.h"

namespace firesteel {

// Counts durations in buckets of about 1.6 % of their size.
class LagHistogram {
 public:
  void Add(int64_t ns);
  int64_t count() const { return count_; }
  int64_t max_ns() const { return max_ns_; }
  // The upper end of the bucket that holds the percentile; 0 without samples.
  int64_t Percentile(double percent) const;

 private:
  static constexpr int kSubBits = 6;
  static constexpr int kOctaves = 40;
  std::array<int64_t, (size_t{kOctaves} << kSubBits)> buckets_{};
  int64_t count_ = 0;
  int64_t max_ns_ = 0;
};

class ClientMonitor {
 public:
  // Time between ticks: fine enough to see a millisecond, coarse enough to cost nothing.
  static constexpr int64_t kTickNs = 1'000'000;

  explicit ClientMonitor(int64_t now_ns);

  // A read whose bytes may have been there since `readable_ns` was parsed at `parsed_ns`.
  void OnRead(int64_t readable_ns, int64_t parsed_ns) { reads_.Add(parsed_ns - readable_ns); }
  // When the loop has to wake for the next tick.
  int64_t next_tick_ns() const { return next_tick_ns_; }
  // After each turn of the loop: accounts for the ticks that came due, each with its own delay. A
  // stall of ten ticks counts ten times, as it would for bytes that arrive at random.
  void OnTurn(int64_t now_ns);

  // `waited_ns`: what the loop spent waiting since construction. `events`: parsed in all.
  ClientHealth Finish(int64_t now_ns, int64_t waited_ns, int64_t events) const;

 private:
  LagHistogram reads_;
  LagHistogram ticks_;
  int64_t start_ns_;
  int64_t next_tick_ns_;
  int64_t cpu_start_ns_;
  int64_t delay_start_ns_;
};

}  // namespace firesteel
