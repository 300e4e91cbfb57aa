#include "measure/ceilings.h"

#include <cstring>
#include <vector>

#include "measure/integer_peak.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "measure/ceilings.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace firesteel::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Into L2, as the kernels do it: the hardware alone reads less than they.
constexpr int64_t kAhead = 16384;

uint64_t ReadAll(const std::byte* bytes, int64_t count) {
  const hn::ScalableTag<uint64_t> d;
  const auto step = static_cast<int64_t>(4 * hn::Lanes(d) * sizeof(uint64_t));
  auto sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  for (int64_t i = 0; i + step <= count; i += step) {
    const auto* words = reinterpret_cast<const uint64_t*>(bytes + i);
    for (int64_t b = 0; b < step; b += 64) __builtin_prefetch(bytes + i + kAhead + b, 0, 2);
    sum0 = hn::Xor(sum0, hn::Load(d, words));
    sum1 = hn::Xor(sum1, hn::Load(d, words + hn::Lanes(d)));
    sum2 = hn::Xor(sum2, hn::Load(d, words + 2 * hn::Lanes(d)));
    sum3 = hn::Xor(sum3, hn::Load(d, words + 3 * hn::Lanes(d)));
  }
  return hn::GetLane(hn::Xor(hn::Xor(sum0, sum1), hn::Xor(sum2, sum3)));
}

// Twelve chains hide the latency of two units and fit into sixteen registers. Each begins
// elsewhere: a compiler computes equal chains once.
double Fma(int64_t iterations, float* out) {
  const hn::ScalableTag<float> d;
  const auto a = hn::Set(d, out[0]), b = hn::Set(d, out[1]);
  auto s0 = hn::Set(d, out[2]), s1 = hn::Set(d, out[3]), s2 = hn::Set(d, out[4]);
  auto s3 = hn::Set(d, out[5]), s4 = hn::Set(d, out[6]), s5 = hn::Set(d, out[7]);
  auto s6 = hn::Set(d, out[8]), s7 = hn::Set(d, out[9]), s8 = hn::Set(d, out[10]);
  auto s9 = hn::Set(d, out[11]), s10 = hn::Set(d, out[12]), s11 = hn::Set(d, out[13]);
  for (int64_t i = 0; i < iterations; ++i) {
    s0 = hn::MulAdd(a, b, s0), s1 = hn::MulAdd(a, b, s1), s2 = hn::MulAdd(a, b, s2);
    s3 = hn::MulAdd(a, b, s3), s4 = hn::MulAdd(a, b, s4), s5 = hn::MulAdd(a, b, s5);
    s6 = hn::MulAdd(a, b, s6), s7 = hn::MulAdd(a, b, s7), s8 = hn::MulAdd(a, b, s8);
    s9 = hn::MulAdd(a, b, s9), s10 = hn::MulAdd(a, b, s10), s11 = hn::MulAdd(a, b, s11);
  }
  s0 = hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(s4, s5));
  s6 = hn::Add(hn::Add(hn::Add(s6, s7), hn::Add(s8, s9)), hn::Add(s10, s11));
  out[0] += hn::GetLane(hn::Add(s0, s6)) * 1e-30f;
  return static_cast<double>(iterations) * 12 * static_cast<double>(hn::Lanes(d));
}

}  // namespace firesteel::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace firesteel {
namespace {

HWY_EXPORT(ReadAll);
HWY_EXPORT(Fma);

constexpr int64_t kIterations = 1 << 18;

// Runs `work` once on every thread, at the same time; the sum of what it returns.
template <typename Work>
double OnAllThreads(ThreadPool& pool, Work work) {
  const int threads = pool.NumThreads();
  std::vector<double> counts(static_cast<size_t>(threads));
  pool.ParallelFor(threads, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) counts[static_cast<size_t>(t)] = work();
  });
  double sum = 0;
  for (const double count : counts) sum += count;
  return sum;
}

}  // namespace

ReadCeiling::ReadCeiling(int64_t buffer_bytes)
    : buffer_(buffer_bytes / kBytesPerCall * kBytesPerCall) {
  // Pages that nobody wrote to are all the same one.
  std::memset(buffer_.data(), 1, static_cast<size_t>(buffer_.size()));
}

void ReadCeiling::Run(ThreadPool& pool) {
  const std::byte* data = buffer_.data() + next_;
  pool.ParallelFor(kBytesPerCall / 4096, 64, [&](int64_t begin, int64_t end, int) {
    volatile uint64_t sink =
        HWY_DYNAMIC_DISPATCH(ReadAll)(data + begin * 4096, (end - begin) * 4096);
    (void)sink;
  });
  next_ = (next_ + kBytesPerCall) % buffer_.size();
}

double RunFmaCeiling(ThreadPool& pool) {
  return OnAllThreads(pool, [] {
    float values[14] = {1.0f, 1e-8f};
    for (int i = 2; i < 14; ++i) values[i] = static_cast<float>(i);
    const double count = HWY_DYNAMIC_DISPATCH(Fma)(kIterations, values);
    volatile float sink = values[0];
    (void)sink;
    return count;
  });
}

double RunIntegerCeiling(ThreadPool& pool) {
  return OnAllThreads(pool, [] { return IntegerMultiplyAdds(kIterations); });
}

}  // namespace firesteel
#endif  // HWY_ONCE
