// What a step takes: measured at start, kept true by the steps that run.
//
//   seconds = verify(rows) + draft(sequences)
//
// Between measured points the cost is a straight line, for the kernels deal rows evenly to their
// tiles; beyond the last point the line goes on. It never falls as rows are added.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace firesteel {

struct CostPoint {
  int64_t count = 0;  // rows, or sequences that draft
  double seconds = 0;
};

// A curve through points; the points move with what is observed.
class CostCurve {
 public:
  // Points in rising order of count, the first at 1. Empty: nothing is known, and At is 0.
  CostCurve() = default;
  explicit CostCurve(std::vector<CostPoint> points);

  double At(int64_t count) const;
  bool empty() const { return points_.empty(); }
  const std::vector<CostPoint>& points() const { return points_; }

  // One observation moves the points on both sides of `count`, by a tenth of what it differs at
  // most. A single step that was held up counts as at most twice its time.
  void Observe(int64_t count, double seconds);

 private:
  struct Between {
    size_t low, high;
    double share;  // of the way from low to high
  };
  Between Find(int64_t count) const;
  void Settle();

  std::vector<CostPoint> points_;  // what decisions see
  std::vector<double> observed_;  // smoothed; taken over when it has moved by more than kHysteresis
};

struct StepCost {
  CostCurve verify;  // a forward pass by rows, and drawing from its logits
  CostCurve draft;   // a draft pass by sequences

  bool known() const { return !verify.empty(); }
};

}  // namespace firesteel
