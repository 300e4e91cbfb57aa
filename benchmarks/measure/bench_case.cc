#include "measure/bench_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

namespace firesteel {
namespace {

using Clock = std::chrono::steady_clock;

// The libraries beside us spin for this long after a call before their threads sleep, at the cost
// of whoever runs next.
constexpr auto kPeerSpin = std::chrono::milliseconds(40);

double Milliseconds(Clock::duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

double TimeOnce(const BenchCase& c) {
  std::vector<double> calls;
  double total = 0;
  while (total < 15 || (calls.size() < 3 && total < 100)) {
    const auto start = Clock::now();
    c.call();
    calls.push_back(Milliseconds(Clock::now() - start));
    total += calls.back();
  }
  return Median(calls);
}

}  // namespace

double Median(const std::vector<double>& ms) {
  std::vector<double> sorted = ms;
  std::sort(sorted.begin(), sorted.end());
  const size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

double Spread(const std::vector<double>& ms) {
  const auto [min, max] = std::minmax_element(ms.begin(), ms.end());
  return (*max - *min) / Median(ms);
}

void RunInterleaved(std::vector<BenchCase>& cases, int rounds, double minutes) {
  const auto start = Clock::now();
  for (int round = 0; round < rounds; ++round) {
    for (BenchCase& c : cases) {
      c.ms.push_back(TimeOnce(c));
      if (!c.peer.empty() && c.threads > 1) std::this_thread::sleep_for(kPeerSpin);
    }
    const double seconds = Milliseconds(Clock::now() - start) / 1000;
    fmt::print(stderr, "round {} of {}, {:.0f} s\n", round + 1, rounds, seconds);
    if (round >= 2 && seconds > 60 * minutes) return;
  }
}

}  // namespace firesteel
