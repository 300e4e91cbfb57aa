// Runs by cell: one configuration at one concurrency of one scenario, over its repeats. Keeps a
// reference to the results, which must outlive it. Immutable after construction.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analysis/random_lengths.h"
#include "analysis/run.h"
#include "analysis/significance.h"

namespace firesteel {

struct CellRuns {
  std::string campaign;
  std::string scenario;
  std::string configuration;
  int32_t concurrency = 0;
  std::vector<int32_t> runs;  // indices into Results::runs: all that were measured, void ones too
};

// One configuration of one scenario over its levels, ascending.
struct LevelSeries {
  std::string campaign;
  std::string scenario;
  std::string configuration;
  std::vector<const CellRuns*> levels;
};

// What a cell's requests were, and how we know.
struct CellWork {
  RunWork work;
  bool assumed = false;  // the number of prompts is that of other runs at this concurrency
  std::optional<RandomLengths> lengths = {};
};

class CellTable {
 public:
  explicit CellTable(const Results& results);

  const std::vector<CellRuns>& cells() const { return cells_; }
  const CellRuns* Find(const std::string& campaign, const std::string& scenario,
                       const std::string& configuration, int32_t concurrency) const;

  // In the order of first appearance; "" stands for any.
  std::vector<std::string> Scenarios(const std::string& campaign) const;
  std::vector<std::string> Configurations(const std::string& campaign,
                                          const std::string& scenario = "") const;
  std::vector<int32_t> Levels(const std::string& campaign, const std::string& scenario) const;
  std::vector<LevelSeries> Series(const std::string& campaign) const;
  std::vector<const CellRuns*> CellsOf(const std::string& campaign, const std::string& scenario,
                                       int32_t concurrency) const;

  const Run& First(const CellRuns& cell) const { return results_.runs[cell.runs.front()]; }
  const Configuration& ConfigurationOf(const CellRuns& cell) const {
    return First(cell).configuration;
  }
  bool Valid(const CellRuns& cell) const;  // at least one run counts

  // Over the runs that count and have the figure: the mean, the values, the runs.
  std::optional<double> Value(const CellRuns& cell, Metric metric) const;
  std::vector<double> Values(const CellRuns& cell, Metric metric) const;
  std::vector<int32_t> Sources(const CellRuns& cell, Metric metric) const;
  std::optional<Interval> MeanIntervalOf(const CellRuns& cell, Metric metric) const;

  // a over b. Sides with one run get the noise of this metric.
  std::optional<RatioEstimate> Compare(const CellRuns& a, const CellRuns& b, Metric metric) const;
  // Coefficient of variation between repeats: pooled over all cells with repeats where they are
  // enough, else the metric's default.
  double Noise(Metric metric) const;

  // Totals over requests, else the ratio of the two rates.
  std::optional<double> OutputPerRequest(const CellRuns& cell) const;
  CellWork WorkOf(const CellRuns& cell) const;
  // P99 over mean of the output lengths, where this cell's or an equal cell's are known.
  std::optional<double> LengthSpread(const CellRuns& cell) const;

  // The first of total, output and request throughput that all of these cells have.
  std::optional<Metric> CommonThroughput(const std::vector<const CellRuns*>& cells) const;

 private:
  const Results& results_;
  std::vector<CellRuns> cells_;
  struct PooledNoise {
    double deviation = 0;
    double freedom = 0;  // 0: the default
  };
  std::map<Metric, PooledNoise> noise_;
};

}  // namespace firesteel
