// Numbers of drafted tokens against each other: what a longer draft brings and what it costs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "analysis/rules_internal.h"

namespace firesteel {
namespace {

int32_t Tokens(const CellTable& cells, const CellRuns& cell) {
  return cells.ConfigurationOf(cell).spec_tokens.value_or(-1);
}

void AddSources(const CellRuns& cell, Hit* hit) {
  hit->sources.insert(hit->sources.end(), cell.runs.begin(), cell.runs.end());
}

}  // namespace

std::vector<std::vector<const CellRuns*>> LengthGroups(const CellTable& cells,
                                                       const std::string& campaign) {
  std::vector<std::vector<const CellRuns*>> groups;
  for (const std::string& scenario : cells.Scenarios(campaign)) {
    for (const int32_t level : cells.Levels(campaign, scenario)) {
      std::map<std::pair<std::string, std::string>, std::vector<const CellRuns*>> by_method;
      for (const CellRuns* cell : cells.CellsOf(campaign, scenario, level)) {
        const Configuration& c = cells.ConfigurationOf(*cell);
        if (c.spec_tokens.value_or(0) > 0 && cells.Valid(*cell))
          by_method[{c.engine, c.method}].push_back(cell);
      }
      for (auto& [method, group] : by_method) {
        std::sort(group.begin(), group.end(), [&](const CellRuns* a, const CellRuns* b) {
          return Tokens(cells, *a) < Tokens(cells, *b);
        });
        if (group.size() >= 2) groups.push_back(group);
      }
    }
  }
  return groups;
}

std::vector<LengthPair> LengthPairs(const CellTable& cells, const std::string& campaign) {
  std::vector<LengthPair> pairs;
  for (const auto& group : LengthGroups(cells, campaign)) {
    for (size_t i = 0; i + 1 < group.size(); ++i) {
      if (Tokens(cells, *group[i]) < Tokens(cells, *group[i + 1]))
        pairs.push_back({group[i], group[i + 1]});
    }
  }
  return pairs;
}

std::optional<double> TokensPerStep(const CellTable& cells, const CellRuns& cell) {
  const auto rate = cells.Value(cell, Metric::kAcceptRate);
  const auto length = cells.Value(cell, Metric::kAcceptLength);
  const Configuration& configuration = cells.ConfigurationOf(cell);
  // A scheduler that varies the draft gives no fixed number to multiply with.
  const auto drafted = cells.First(cell).tokens_per_draft;
  const auto k = drafted ? drafted : std::optional<double>(configuration.spec_tokens);
  if (rate && k && *k > 0) return 1 + *k * *rate / 100;
  return length;
}

std::optional<double> StepTime(const CellTable& cells, const CellRuns& cell) {
  const auto gap = cells.Value(cell, Metric::kMeanIcl);
  if (gap) return gap;
  const auto itl = cells.Value(cell, Metric::kMeanItl);
  const auto tpot = cells.Value(cell, Metric::kMeanTpot);
  const auto tokens = TokensPerStep(cells, cell);
  // One sample per event, or one per token: the ratio to TPOT tells.
  if (itl && tpot && *tpot > 0 && *itl / *tpot > 1.15) return itl;
  if (tpot && tokens) return *tpot * *tokens;
  return itl;
}

std::optional<ModelCheck> CheckModel(const CellTable& cells, const CellRuns& cell,
                                     const CellRuns& baseline) {
  const auto tokens = TokensPerStep(cells, cell);
  const auto step = StepTime(cells, cell);
  const auto base_itl = cells.Value(baseline, Metric::kMeanItl);
  const auto base_step = base_itl ? base_itl : cells.Value(baseline, Metric::kMeanTpot);
  const auto ours = cells.Value(cell, Metric::kOutputThroughput);
  const auto theirs = cells.Value(baseline, Metric::kOutputThroughput);
  if (!tokens || !step || !base_step || !ours || !theirs) return std::nullopt;
  if (*base_step <= 0 || *step <= 0 || *theirs <= 0) return std::nullopt;
  ModelCheck check;
  check.tokens_per_step = *tokens;
  check.relative_step = *step / *base_step;
  check.expected = check.tokens_per_step / check.relative_step;
  check.measured = *ours / *theirs;
  return check;
}

// The rate falls with the draft's length by its definition; tokens per step rise.
void Rules::RateFalls(const std::string& campaign) {
  std::vector<std::string> parts;
  std::vector<int32_t> sources;
  const CellRuns* slow_fewer = nullptr;
  const CellRuns* slow_more = nullptr;
  for (const LengthPair& pair : LengthPairs(cells_, campaign)) {
    const auto r0 = cells_.Value(*pair.fewer, Metric::kAcceptRate);
    const auto r1 = cells_.Value(*pair.more, Metric::kAcceptRate);
    const auto t0 = cells_.Value(*pair.fewer, Metric::kAcceptLength);
    const auto t1 = cells_.Value(*pair.more, Metric::kAcceptLength);
    if (!r0 || !r1 || !t0 || !t1 || *r0 <= *r1 || *t0 >= *t1) continue;
    parts.push_back(fmt::format("c={}: k={} {:.2f} % / {:.2f}, k={} {:.2f} % / {:.2f}",
                                pair.fewer->concurrency, Tokens(cells_, *pair.fewer), *r0, *t0,
                                Tokens(cells_, *pair.more), *r1, *t1));
    for (const CellRuns* cell : {pair.fewer, pair.more})
      sources.insert(sources.end(), cell->runs.begin(), cell->runs.end());
    slow_fewer = pair.fewer;
    slow_more = pair.more;
  }
  if (parts.empty()) return;
  // The pair at the highest load whose lengths are the shortest two.
  for (const LengthPair& pair : LengthPairs(cells_, campaign)) {
    if (pair.fewer->concurrency != slow_fewer->concurrency) continue;
    slow_fewer = pair.fewer;
    slow_more = pair.more;
    break;
  }
  Hit& hit = AddForCampaign("RATE_FALLS", campaign, Severity::kNote, Confidence::kHigh);
  hit.grade = "note";
  hit.Text("rate_and_length", fmt::format("{}", fmt::join(parts, "; ")));
  const auto s0 = StepTime(cells_, *slow_fewer), s1 = StepTime(cells_, *slow_more);
  std::string steps = "–";
  if (s0 && s1) {
    steps = fmt::format("c={}: k={} {:.2f} ms, k={} {:.2f} ms", slow_fewer->concurrency,
                        Tokens(cells_, *slow_fewer), *s0, Tokens(cells_, *slow_more), *s1);
    hit.Text("step_time", steps);
  }
  hit.arguments = {fmt::format("{}", fmt::join(parts, "; ")), steps};
  hit.sources = sources;
}

void Rules::LengthChoice(const std::string& campaign) {
  for (const auto& group : LengthGroups(cells_, campaign)) {
    const CellRuns* best = nullptr;
    double most = 0;
    for (const CellRuns* cell : group) {
      const auto value = cells_.Value(*cell, Metric::kOutputThroughput);
      if (value && *value > most) best = cell;
      most = std::max(most, value.value_or(0));
    }
    if (best == nullptr) continue;
    // The shortest that is as good as the best, within the tolerance: it drafts and verifies least.
    const CellRuns* choice = best;
    for (const CellRuns* cell : group) {
      const auto value = cells_.Value(*cell, Metric::kOutputThroughput);
      if (!value || *value < (1 - limits_.length_tolerance) * most) continue;
      choice = cell;
      break;
    }
    double worst = 0;
    const CellRuns* worst_cell = nullptr;
    for (const CellRuns* cell : group) {
      const auto value = cells_.Value(*cell, Metric::kOutputThroughput);
      if (!value || *value <= 0 || cell == choice) continue;
      const double gain = *cells_.Value(*choice, Metric::kOutputThroughput) / *value - 1;
      if (worst_cell == nullptr || gain > worst) worst_cell = cell;
      worst = std::max(worst, gain);
    }
    if (worst_cell == nullptr) continue;
    Hit& hit = Add("LENGTH_CHOICE", *choice, Severity::kNote,
                   choice == best ? Confidence::kMedium : Confidence::kLow);
    hit.grade = "note";
    hit.variant = choice == best ? "" : "within";
    hit.Number("choice", Tokens(cells_, *choice), 0).Number("fastest", Tokens(cells_, *best), 0);
    hit.Number("gain_over_worst_pct", 100 * worst, 1, "%");
    hit.Number("worst", Tokens(cells_, *worst_cell), 0);
    const double behind = 1 - *cells_.Value(*choice, Metric::kOutputThroughput) / most;
    hit.arguments = {std::to_string(Tokens(cells_, *choice)), std::to_string(Tokens(cells_, *best)),
                     Percent(worst), std::to_string(Tokens(cells_, *worst_cell)),
                     Fixed(100 * behind, 1)};
    for (const CellRuns* cell : group) AddSources(*cell, &hit);
  }
}

// More requests per second because each answer was shorter.
void Rules::ShorterAnswers(const std::string& campaign) {
  for (const LengthPair& pair : LengthPairs(cells_, campaign)) {
    const auto requests = cells_.Compare(*pair.more, *pair.fewer, Metric::kRequestThroughput);
    const auto output = cells_.Compare(*pair.more, *pair.fewer, Metric::kOutputThroughput);
    const auto a = cells_.OutputPerRequest(*pair.more), b = cells_.OutputPerRequest(*pair.fewer);
    if (!requests || !output || !a || !b || *b <= 0) continue;
    const double longer = *a / *b - 1;
    const double gain = std::abs(requests->ratio - 1), real = std::abs(output->ratio - 1);
    const double allowance =
        RoundingAllowance(cells_, *pair.more, *pair.fewer, Metric::kRequestThroughput);
    if (std::abs(longer) <= std::max(limits_.unequal_work, allowance) || gain < 2 * real) continue;
    Hit& hit = Add("SHORTER_ANSWERS", *pair.more, Severity::kWarning, Confidence::kHigh);
    hit.grade = "warn";
    hit.Number("request_change_pct", 100 * (requests->ratio - 1), 1, "%");
    hit.Number("output_change_pct", 100 * (output->ratio - 1), 1, "%");
    hit.Number("out_per_request", *a, 1, "tok").Number("other_out_per_request", *b, 1, "tok");
    hit.arguments = {Percent(requests->ratio - 1), pair.fewer->configuration,
                     Percent(output->ratio - 1), Fixed(*a, 1), Fixed(*b, 1)};
    AddSources(*pair.fewer, &hit);
  }
}

// One length ahead of another in every figure that both have.
void Rules::AheadOnAll(const std::string& campaign) {
  constexpr int kEnoughFigures = 4;
  for (const LengthPair& pair : LengthPairs(cells_, campaign)) {
    int fewer = 0, more = 0;
    std::vector<std::string> parts;
    for (const Metric metric :
         {Metric::kRequestThroughput, Metric::kOutputThroughput, Metric::kTotalThroughput,
          Metric::kMeanE2e, Metric::kMeanTtft, Metric::kMeanTpot, Metric::kMeanItl}) {
      const auto a = cells_.Value(*pair.fewer, metric), b = cells_.Value(*pair.more, metric);
      if (!a || !b) continue;
      const bool first = Info(metric).higher_is_better ? *a > *b : *a < *b;
      (first ? fewer : more) += 1;
      parts.push_back(fmt::format("{} {:.2f} / {:.2f}", Info(metric).name, *a, *b));
    }
    if (fewer + more < kEnoughFigures || (fewer > 0 && more > 0)) continue;
    const CellRuns& ahead = fewer > 0 ? *pair.fewer : *pair.more;
    const CellRuns& behind = fewer > 0 ? *pair.more : *pair.fewer;
    Hit& hit = Add("AHEAD_ON_ALL", ahead, Severity::kNote, Confidence::kMedium);
    hit.grade = "note";
    hit.Number("figures", fewer + more, 0)
        .Text("compared", fmt::format("{}", fmt::join(parts, "; ")));
    hit.arguments = {behind.configuration, std::to_string(fewer + more),
                     fmt::format("{}", fmt::join(parts, "; "))};
    AddSources(behind, &hit);
  }
}

void Rules::StepJump(const std::string& campaign) {
  const std::vector<LengthPair> pairs = LengthPairs(cells_, campaign);
  const auto growth = [&](const LengthPair& pair) -> std::optional<double> {
    const auto a = StepTime(cells_, *pair.fewer), b = StepTime(cells_, *pair.more);
    if (!a || !b || *a <= 0) return std::nullopt;
    return *b / *a - 1;
  };
  for (const LengthPair& pair : pairs) {
    const auto own = growth(pair);
    if (!own) continue;
    double others = 0;
    bool has_others = false;
    for (const LengthPair& other : pairs) {
      if (other.fewer->scenario != pair.fewer->scenario || other.more == pair.more ||
          other.fewer->concurrency != pair.fewer->concurrency)
        continue;
      const auto theirs = growth(other);
      if (!theirs) continue;
      others = std::max(others, *theirs);
      has_others = true;
    }
    const int32_t increments = Tokens(cells_, *pair.more) - Tokens(cells_, *pair.fewer);
    const bool big = *own / increments > limits_.step_jump;
    const bool odd =
        has_others && *own > limits_.step_jump && *own > limits_.step_jump_factor * others;
    if (!big && !odd) continue;
    Hit& hit = Add("STEP_JUMP", *pair.more, Severity::kWarning, Confidence::kMedium);
    hit.grade = "warn";
    hit.Number("from_tokens", Tokens(cells_, *pair.fewer), 0);
    hit.Number("to_tokens", Tokens(cells_, *pair.more), 0);
    hit.Number("step_growth_pct", 100 * *own, 1, "%");
    const auto rows = [&](const CellRuns& cell) {
      return static_cast<double>(cell.concurrency) * (Tokens(cells_, cell) + 1.0);
    };
    hit.Number("rows_per_step", rows(*pair.more), 0);
    hit.arguments = {std::to_string(Tokens(cells_, *pair.fewer)),
                     std::to_string(Tokens(cells_, *pair.more)), Percent(*own),
                     Fixed(rows(*pair.more), 0), Fixed(rows(*pair.fewer), 0)};
    hit.alternatives = {"why.graph_size", "why.token_limit"};
    AddSources(*pair.fewer, &hit);
  }
}

void Rules::ModelMismatch(const std::string& campaign) {
  const auto baseline = analysis_.baselines.find(campaign);
  if (baseline == analysis_.baselines.end()) return;
  for (const CellRuns& cell : cells_.cells()) {
    if (cell.campaign != campaign || cells_.ConfigurationOf(cell).spec_tokens.value_or(0) <= 0)
      continue;
    const CellRuns* base = cells_.Find(campaign, cell.scenario, baseline->second, cell.concurrency);
    if (base == nullptr) continue;
    const auto check = CheckModel(cells_, cell, *base);
    if (!check || std::abs(check->expected / check->measured - 1) <= limits_.model_mismatch)
      continue;
    Hit& hit = Add("MODEL_MISMATCH", cell, Severity::kNote, Confidence::kLow);
    hit.grade = "note";
    hit.Number("expected", check->expected, 3, "×").Number("measured", check->measured, 3, "×");
    hit.Number("error_pct", 100 * (check->expected / check->measured - 1), 1, "%");
    hit.arguments = {Fixed(check->expected), Fixed(check->measured),
                     Percent(check->expected / check->measured - 1)};
    hit.alternatives = {"why.prefill_share", "why.scheduling"};
    AddSources(*base, &hit);
  }
}

// "A short draft at high load, a long one at low load" is checked point by point.
void Rules::NotMonotone(const std::string& campaign) {
  constexpr int32_t kHighLoad = 32, kLowLoad = 16;
  // The fastest length of each cell; where one was tried it is that one.
  std::map<int32_t, std::vector<const CellRuns*>> high, low;  // k -> cells
  for (const std::string& scenario : cells_.Scenarios(campaign)) {
    for (const int32_t level : cells_.Levels(campaign, scenario)) {
      const CellRuns* best = nullptr;
      for (const CellRuns* cell : cells_.CellsOf(campaign, scenario, level)) {
        const Configuration& c = cells_.ConfigurationOf(*cell);
        if (c.spec_tokens.value_or(0) <= 0 || !cells_.Valid(*cell) || !c.settings.empty()) continue;
        const auto metric = cells_.CommonThroughput({cell});
        if (!metric) continue;
        if (best == nullptr || cells_.Value(*cell, *metric) > cells_.Value(*best, *metric))
          best = cell;
      }
      if (best == nullptr) continue;
      if (level >= kHighLoad) high[Tokens(cells_, *best)].push_back(best);
      if (level <= kLowLoad) low[Tokens(cells_, *best)].push_back(best);
    }
  }
  if (high.size() < 2 || low.empty()) return;
  std::vector<std::string> long_at_high, short_at_low;
  Hit hit;
  const int32_t shortest = high.begin()->first;
  for (const auto& [k, cells] : high) {
    for (const CellRuns* cell : cells) {
      if (k != shortest) long_at_high.push_back(fmt::format("{} k={}", CellName(*cell), k));
      AddSources(*cell, &hit);
    }
  }
  for (const auto& [k, cells] : low) {
    for (const CellRuns* cell : cells) {
      if (k == shortest) short_at_low.push_back(fmt::format("{} k={}", CellName(*cell), k));
      AddSources(*cell, &hit);
    }
  }
  if (long_at_high.empty() && short_at_low.empty()) return;
  Hit& added = AddForCampaign("NOT_MONOTONE", campaign, Severity::kNote, Confidence::kMedium);
  added.grade = "note";
  added.sources = hit.sources;
  added.Text("longer_at_high_load", fmt::format("{}", fmt::join(long_at_high, ", ")));
  added.Text("shorter_at_low_load", fmt::format("{}", fmt::join(short_at_low, ", ")));
  added.arguments = {fmt::format("{}", fmt::join(long_at_high, ", ")),
                     fmt::format("{}", fmt::join(short_at_low, ", ")), std::to_string(kHighLoad),
                     std::to_string(kLowLoad)};
}

}  // namespace firesteel
