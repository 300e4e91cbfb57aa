#include "speculation/step_cost.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace firesteel {
namespace {

constexpr double kWeight = 0.1;       // of one observation
constexpr double kHysteresis = 0.03;  // a curve that changes all the time makes decisions flicker
constexpr double kMaxRatio = 2.0;

}  // namespace

CostCurve::CostCurve(std::vector<CostPoint> points) : points_(std::move(points)) {
  for (size_t i = 0; i < points_.size(); ++i) {
    FS_CHECK(points_[i].seconds > 0 && std::isfinite(points_[i].seconds) &&
                 (i == 0 ? points_[i].count == 1 : points_[i].count > points_[i - 1].count),
             "point {} of a cost curve: {} in {} s", i, points_[i].count, points_[i].seconds);
  }
  Settle();
  for (const CostPoint& point : points_) observed_.push_back(point.seconds);
}

CostCurve::Between CostCurve::Find(int64_t count) const {
  const auto above = std::ranges::upper_bound(points_, count, {}, &CostPoint::count);
  auto high = static_cast<size_t>(above - points_.begin());
  high = std::clamp<size_t>(high, 1, points_.size() - 1);
  const CostPoint& a = points_[high - 1];
  const CostPoint& b = points_[high];
  return {high - 1, high,
          static_cast<double>(count - a.count) / static_cast<double>(b.count - a.count)};
}

double CostCurve::At(int64_t count) const {
  if (points_.empty() || count <= 0) return 0;
  if (points_.size() == 1) return points_[0].seconds;
  const Between at = Find(count);
  const double low = points_[at.low].seconds, high = points_[at.high].seconds;
  return low + at.share * (high - low);
}

void CostCurve::Observe(int64_t count, double seconds) {
  if (points_.empty() || count <= 0 || !(seconds > 0)) return;
  Between at{0, 0, 0};
  if (points_.size() > 1) at = Find(count);
  const double expected = observed_[at.low] + at.share * (observed_[at.high] - observed_[at.low]);
  const double ratio = std::clamp(seconds / expected, 1 / kMaxRatio, kMaxRatio);
  const double share = std::clamp(at.share, 0.0, 1.0);
  observed_[at.low] *= 1 + kWeight * (1 - share) * (ratio - 1);
  if (at.high != at.low) observed_[at.high] *= 1 + kWeight * share * (ratio - 1);
  const auto moved = [&](size_t i) {
    return std::abs(observed_[i] / points_[i].seconds - 1) > kHysteresis;
  };
  for (size_t i = 0; i < points_.size(); ++i) {
    if (!moved(i)) continue;
    for (size_t p = 0; p < points_.size(); ++p) points_[p].seconds = observed_[p];
    Settle();
    for (size_t p = 0; p < points_.size(); ++p) observed_[p] = points_[p].seconds;
    return;
  }
}

void CostCurve::Settle() {
  for (size_t i = 1; i < points_.size(); ++i) {
    points_[i].seconds = std::max(points_[i].seconds, points_[i - 1].seconds);
  }
}

}  // namespace firesteel
