#include "base/clock.h"

#include <chrono>

namespace firesteel {
namespace {

class SteadyClock : public Clock {
 public:
  int64_t NowNs() const override {
    const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(since_boot).count();
  }
};

}  // namespace

const Clock& Clock::Real() {
  static const SteadyClock clock;
  return clock;
}

}  // namespace firesteel
