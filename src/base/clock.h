// Time as an argument, so that a test can turn it by hand. Monotonic, in nanoseconds from an
// arbitrary origin.
#pragma once

#include <cstdint>

namespace firesteel {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t NowNs() const = 0;  // thread-safe
  static const Clock& Real();
};

constexpr double SecondsFromNs(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

class ManualClock : public Clock {
 public:
  int64_t NowNs() const override { return now_ns_; }
  void AdvanceNs(int64_t ns) { now_ns_ += ns; }

 private:
  int64_t now_ns_ = 0;
};

}  // namespace firesteel
