#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "analysis/import_internal.h"

namespace firesteel {
namespace {

struct Overlap {
  int equal = 0;
  bool distinctive = false;  // one of the equal figures has four digits or more
  bool conflict = false;
};

Overlap CompareMeasures(const Run& a, const Run& b) {
  Overlap overlap;
  for (const MetricInfo& info : AllMetrics()) {
    const auto x = a.measures.Get(info.metric);
    const auto y = b.measures.Get(info.metric);
    if (!x || !y) continue;
    if (*x != *y) {
      overlap.conflict = true;
      continue;
    }
    ++overlap.equal;
    const double hundredths = std::round(*x * 100);
    overlap.distinctive |= hundredths >= 1000 && std::fmod(hundredths, 10) != 0;
  }
  return overlap;
}

bool SameCell(const Run& a, const Run& b) {
  return a.campaign == b.campaign && a.scenario == b.scenario &&
         a.configuration.name == b.configuration.name && a.concurrency == b.concurrency;
}

// Two tellings of one run: rows of one report that complete each other, or lines of two files that
// agree in every figure both have. Repeats of a run never agree to the last digit.
bool SameRun(const Run& a, const Run& b) {
  if (a.quoted || b.quoted || a.concurrency != b.concurrency) return false;
  const auto k_a = a.configuration.spec_tokens, k_b = b.configuration.spec_tokens;
  if (k_a && k_b && *k_a != *k_b) return false;
  const RunOrigin& from_a = a.origins.front();
  const RunOrigin& from_b = b.origins.front();
  const Overlap overlap = CompareMeasures(a, b);
  if (overlap.conflict) return false;
  if (from_a.file == from_b.file)
    return from_a.format == ResultFormat::kReportTable && SameCell(a, b);
  if (from_a.format == ResultFormat::kNative || from_b.format == ResultFormat::kNative)
    return false;
  if (!from_a.record.empty() && from_a.record == from_b.record && overlap.equal > 0) return true;
  return (overlap.equal >= 2 && overlap.distinctive) || (overlap.equal > 0 && SameCell(a, b));
}

template <typename T>
void Fill(std::optional<T>* into, const std::optional<T>& from) {
  if (!*into) *into = from;
}

void Fill(std::string* into, const std::string& from) {
  if (into->empty()) *into = from;
}

void FillWork(const RunWork& from, RunWork* into) {
  Fill(&into->dataset, from.dataset);
  Fill(&into->max_input, from.max_input);
  Fill(&into->max_output, from.max_output);
  Fill(&into->range_ratio, from.range_ratio);
  Fill(&into->requested_output, from.requested_output);
  Fill(&into->seed, from.seed);
  Fill(&into->prompts, from.prompts);
  Fill(&into->completed, from.completed);
  Fill(&into->failed, from.failed);
  Fill(&into->input_tokens, from.input_tokens);
  Fill(&into->output_tokens, from.output_tokens);
  Fill(&into->ignore_eos, from.ignore_eos);
  Fill(&into->fingerprint, from.fingerprint);
  Fill(&into->count_basis, from.count_basis);
  Fill(&into->warmups, from.warmups);
  Fill(&into->cached_share, from.cached_share);
}

void FillRun(const Run& from, Run* into) {
  into->origins.insert(into->origins.end(), from.origins.begin(), from.origins.end());
  Fill(&into->origins.front().record, from.origins.front().record);
  for (const MetricInfo& info : AllMetrics()) {
    if (!into->measures.Has(info.metric))
      into->measures.Set(info.metric, from.measures.Get(info.metric));
  }
  FillWork(from.work, &into->work);
  Fill(&into->campaign, from.campaign);
  Fill(&into->configuration.engine, from.configuration.engine);
  Fill(&into->configuration.engine_version, from.configuration.engine_version);
  Fill(&into->configuration.spec_tokens, from.configuration.spec_tokens);
  if (into->raw.is_null()) into->raw = from.raw;
  if (into->samples.ttft.empty()) into->samples = from.samples;
  if (into->acceptance_per_position.empty())
    into->acceptance_per_position = from.acceptance_per_position;
  Fill(&into->tokens_per_draft, from.tokens_per_draft);
  for (const std::string& reason : from.void_reasons) into->void_reasons.push_back(reason);
}

void JoinTellings(Results* results) {
  std::vector<Run> merged;
  for (Run& run : results->runs) {
    if (run.configuration.name.empty() && run.configuration.method.empty()) continue;
    const auto same = std::find_if(merged.begin(), merged.end(),
                                   [&](const Run& other) { return SameRun(other, run); });
    if (same == merged.end()) {
      merged.push_back(std::move(run));
    } else {
      if (same->origins.front().file != run.origins.front().file) {
        results->log.push_back(
            fmt::format("{} and {}: one run told twice, every figure that both have is equal",
                        same->origins.front().file, run.origins.front().file));
      }
      FillRun(run, &*same);
    }
  }
  results->runs = std::move(merged);
}

// Rows of a workload table have no configuration; the run they belong to is named by its record.
void JoinWork(std::vector<Run> facts, Results* results) {
  for (const Run& fact : facts) {
    bool found = false;
    for (Run& run : results->runs) {
      const bool same = !run.quoted && run.scenario == fact.scenario &&
                        run.concurrency == fact.concurrency &&
                        run.origins.front().record == fact.origins.front().record;
      if (!same) continue;
      found = true;
      FillWork(fact.work, &run.work);
      run.origins.push_back(fact.origins.front());
      if (!run.measures.Has(Metric::kDuration))
        run.measures.Set(Metric::kDuration, fact.measures.Get(Metric::kDuration));
    }
    if (!found) {
      results->log.push_back(fmt::format("{}: {} is no run that was read, its work is left out",
                                         fact.origins.front().file, fact.origins.front().record));
    }
  }
}

std::string Stem(const std::string& file) {
  const std::string name = std::filesystem::path(file).filename().string();
  return name.substr(0, name.find('.'));
}

void AssignCampaigns(Results* results) {
  for (Run& run : results->runs) {
    const std::string stem = Stem(run.origins.front().file);
    const bool known = std::any_of(results->campaigns.begin(), results->campaigns.end(),
                                   [&](const Campaign& c) { return c.id == stem; });
    if (run.campaign.empty() && known) run.campaign = stem;
  }
  std::erase_if(results->campaigns, [&](const Campaign& campaign) {
    return std::none_of(results->runs.begin(), results->runs.end(),
                        [&](const Run& run) { return run.campaign == campaign.id; });
  });
}

// A run that does not say its scenario has that of its campaign, where there is just one.
void AssignScenarios(Results* results) {
  constexpr char kUnknown[] = "default";
  for (const Campaign& campaign : results->campaigns) {
    std::set<std::string> known;
    for (const Run& run : results->runs) {
      if (run.campaign == campaign.id && run.scenario != kUnknown) known.insert(run.scenario);
    }
    if (known.size() != 1) continue;
    for (Run& run : results->runs) {
      if (run.campaign == campaign.id && run.scenario == kUnknown) run.scenario = *known.begin();
    }
  }
}

// What one configuration of a campaign says of its only setting holds for quoted figures too.
void NameQuotedRuns(Results* results) {
  for (Run& run : results->runs) {
    if (!run.quoted || !run.configuration.name.empty()) continue;
    std::set<std::string> names;
    for (const Run& other : results->runs) {
      if (other.campaign == run.campaign && !other.quoted) names.insert(other.configuration.name);
    }
    if (names.size() != 1) continue;
    for (const Run& other : results->runs) {
      // The telling that says most: a tool's line does not name the engine.
      if (other.campaign != run.campaign || other.quoted) continue;
      if (run.configuration.engine.empty()) run.configuration = other.configuration;
    }
  }
}

void ShareRequestedLengths(Results* results) {
  for (Run& run : results->runs) {
    if (run.work.requested_output || run.work.max_output) continue;
    for (const Run& other : results->runs) {
      if (other.campaign != run.campaign || other.scenario != run.scenario) continue;
      if (other.work.requested_output) run.work.requested_output = other.work.requested_output;
    }
  }
}

void NameRuns(Results* results) {
  std::map<std::string, int> records;
  for (const Run& run : results->runs) ++records[run.origins.front().record];
  int measured = 0, quoted = 0;
  std::map<std::string, int> repeats;
  for (Run& run : results->runs) {
    const std::string& record = run.origins.front().record;
    if (run.quoted) {
      run.id = fmt::format("Q{}", ++quoted);
    } else if (!record.empty() && records[record] == 1) {
      run.id = record;
    } else {
      run.id = fmt::format("R{}", ++measured);
    }
    if (!run.quoted) {
      run.repeat = ++repeats[fmt::format("{}\n{}\n{}\n{}", run.campaign, run.scenario,
                                         run.configuration.name, run.concurrency)];
    }
  }
}

}  // namespace

void MergeRuns(Results* results) {
  std::vector<Run> facts;
  for (Run& run : results->runs) {
    if (run.configuration.name.empty() && run.measures.Has(Metric::kDuration) && !run.quoted)
      facts.push_back(run);
  }
  std::erase_if(results->runs, [](const Run& run) {
    return run.configuration.name.empty() && run.measures.Has(Metric::kDuration) && !run.quoted;
  });
  NameQuotedRuns(results);
  JoinTellings(results);
  JoinWork(std::move(facts), results);
  AssignCampaigns(results);
  AssignScenarios(results);
  ShareRequestedLengths(results);
  NameRuns(results);
}

}  // namespace firesteel
