// The figures and findings of three published reports, from their tables alone. The oracle is
// testdata/seed-results/golden-*.json, computed by check_seed_results.py there.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "analysis/golden_support.h"
#include "base/json.h"
#include "base/mapped_file.h"

namespace firesteel {
namespace {

// By the id of a golden assertion: where in the document its figure stands.
const Cell* FigureOf(const Golden& golden, const std::string& id) {
  std::vector<std::string> p = SplitId(id);
  const std::string& report = p[0];
  const auto& metric = [](const std::string& name) {
    return Say(Language::kEnglish, "metric." + name);
  };
  if (report == "C") {
    if (p[1] == "win" && p[2] == "count")
      return golden.At("win-counts", "C", {{"side", p[3]}}, "wins");
    if (p[1] == "win")
      return golden.At("winners", "C", {{"scenario", p[2]}, {"concurrency", p[3]}},
                       "improvement_pct");
    if (p[1] == "ratio") {
      const std::string column = p[2] == "arith"    ? "arithmetic"
                                 : p[2] == "geo"    ? "geometric"
                                 : p[2] == "median" ? "median"
                                                    : "below_one";
      return golden.At("ratios", "C", {{"metric", metric(p[3])}}, column);
    }
    if (p[1] == "speedup")
      return golden.At("ratios", "C", {{"metric", metric("total_throughput")}},
                       p[2] == "geo" ? "geometric" : p[2]);
    if (p[1] == "p99ttft")
      return golden.At("ratios", "C", {{"metric", metric("p99_ttft_ms")}}, "below_one");
    if (p[1].starts_with("winner_st"))
      return golden.At("settings-by-load", "C", {{"spec_tokens", p[1].substr(9)}},
                       "points_" + p[2]);
    if (p[1] == "little") return golden.OfRun("checks", "C", p[2], "in_flight");
    if (p[1] == "tail") return golden.OfRun("checks", "C", p[2], "p99_over_mean_e2e");
    if (p[1] == "ttftjitter") return golden.OfRun("checks", "C", p[2], "p99_over_mean_ttft");
    if (p[1] == "replicate")
      return golden.At("replicates", "",
                       {{"kind", Say(Language::kEnglish, "replicate.equal_work")},
                        {"configuration", p[2] == "DSpark" ? "DSpark-st3" : p[2]}},
                       "change_pct");
    const std::string side = p[3] == "EAGLE"                ? "EAGLE"
                             : p[2] == "long_context_probe" ? "DSpark-st5"
                                                            : "DSpark-st3";
    const auto [from, to] = SplitRange(p[4]);
    return golden.At(
        "levels", "C",
        {{"scenario", p[2]}, {"configuration", side}, {"from_level", from}, {"to_level", to}},
        p[1] == "drop" ? "change_pct" : "elasticity");
  }
  if (report == "B") {
    const std::string own = "vLLM-dspark 无投机", other = "vLLM 0.24.0 无投机";
    if (p[1] == "speedup")
      return golden.At("speedup", "B",
                       {{"baseline", p[3] == "dspark_none" ? own : other},
                        {"spec_tokens", p[4].substr(2)},
                        {"concurrency", p[5].substr(1)},
                        {"configuration", fmt::format("vLLM-dspark + DSpark (st={})", p[4][2])}},
                       p[2] == "req" ? "request_ratio" : "output_ratio");
    if (p[1] == "engine")
      return golden.At(
          "speedup", "B",
          {{"baseline", other}, {"configuration", own}, {"concurrency", p[3].substr(1)}},
          p[2] == "req" ? "request_change_pct" : "output_change_pct");
    if (p[1] == "outlen") return golden.OfRun("checks", "B", p[2], "out_per_request");
    if (p[1] == "accept_identity") return golden.OfRun("acceptance", "B", p[2], "length_from_rate");
    if (p[1] == "itl_over_tpot") return golden.OfRun("checks", "B", p[2], "itl_over_tpot");
    if (p[1] == "model" || p[1] == "model_error")
      return golden.At("model", "B",
                       {{"spec_tokens", p[2].substr(2)}, {"concurrency", p[3].substr(1)}},
                       p[1] == "model" ? "expected" : "expected_over_measured");
    if (p[1] == "marginal") {
      const auto [from, to] = SplitRange(p[3]);
      return golden.At("marginal", "B",
                       {{"from_tokens", from}, {"to_tokens", to}, {"concurrency", p[4].substr(1)}},
                       p[2] == "tokens" ? "token_gain_pct" : "time_growth_pct");
    }
    if (p[1] == "best_k")
      return golden.At("lengths", "B", {{"concurrency", p[3].substr(1)}},
                       p[2] == "out" ? "best_by_output" : "best_by_requests");
    return golden.At("lengths", "B", {{"concurrency", "64"}, {"spec_tokens", "5"}},
                     "best_over_this_pct");  // B.gain.st3_over_st5.c64
  }
  if (report == "AC") {
    if (p[1] == "gain")
      return golden.At("across", "", {{"scenario", p[2]}, {"concurrency", p[3]}}, "change_pct");
    return golden.At("replicates", "",
                     {{"kind", Say(Language::kEnglish, "replicate.campaigns")},
                      {"first", "dspark-grid-evaluation: " + p[2]},
                      {"concurrency", p[3]}},
                     "change_pct");
  }
  const std::map<std::string, std::string> checks = {{"little", "in_flight"},
                                                     {"ttft_share", "ttft_share"},
                                                     {"ttftjitter", "p99_over_mean_ttft"},
                                                     {"tail21", "p99_over_mean_e2e"},
                                                     {"tail", "p99_over_mean_e2e"},
                                                     {"itl_over_tpot", "itl_over_tpot"}};
  if (const auto it = checks.find(p[1]); it != checks.end())
    return golden.At("checks", "A", {{"scenario", p[2]}, {"concurrency", p[3]}}, it->second);
  if (p[1] == "recovery") return golden.At("cliffs", "A", {{"scenario", p[2]}}, "recovered_ratio");
  const std::string scenario = p[1] == "tpot_growth" ? "stress_standard" : p[2];
  const auto [from, to] = SplitRange(p.back());
  return golden.At("levels", "A", {{"scenario", scenario}, {"from_level", from}, {"to_level", to}},
                   p[1] == "drop"        ? "change_pct"
                   : p[1] == "ttft_fall" ? "ttft_fall"
                                         : "tpot_change_pct");
}

TEST(Golden, EveryDerivedFigure) {
  const Golden golden = Golden::FromSeedResults();
  int figures = 0;
  const Json oracle = ReadSeedJson("golden-assertions.json");
  for (const Json& assertion : oracle["assertions"]) {
    const std::string id = assertion["id"];
    if (id == "RNG.legacy.probe" || id == "PCT.linear" || id == "C.points") continue;
    const Cell* cell = FigureOf(golden, id);
    ASSERT_NE(cell, nullptr) << id;
    ASSERT_TRUE(cell->value) << id;
    const double expected = assertion["expected"];
    EXPECT_NEAR(*cell->value, expected, 1e-9 * std::max(1.0, std::abs(expected))) << id;
    // What a report printed, to its last digit.
    if (!assertion["stated_in_report"].is_null() && !id.starts_with("B.outlen")) {
      EXPECT_NEAR(std::abs(*cell->value), std::abs(assertion["stated_in_report"].get<double>()),
                  assertion["abs_tol"].get<double>() + 1e-9)
          << id;
    }
    if (id.starts_with("C.win.") || id.starts_with("C.ratio.arith.")) {
      const double stated = assertion["stated_in_report"];
      EXPECT_EQ(CellText(*cell), fmt::format("{:.{}f}", stated, cell->decimals)) << id;
    }
    ++figures;
  }
  EXPECT_EQ(figures, 295);
  EXPECT_EQ(FindTable(golden.document, "winners-dspark-vs-eagle-comparison")->rows.size(), 18u);
}

TEST(Golden, EveryFigureNamesItsRuns) {
  const Golden golden = Golden::FromSeedResults();
  const Json oracle = ReadSeedJson("golden-assertions.json");
  for (const Json& assertion : oracle["assertions"]) {
    const std::string id = assertion["id"];
    if (assertion["inputs"].empty()) continue;
    const Cell* cell = FigureOf(golden, id);
    ASSERT_NE(cell, nullptr) << id;
    std::set<std::string> runs;
    for (const int32_t source : cell->sources) runs.insert(golden.document.sources[source].id);
    for (const Json& input : assertion["inputs"]) {
      // Rows of one cell are one run, under the first row's name.
      const std::string row = input;
      if (row.starts_with("A")) continue;
      EXPECT_TRUE(runs.contains(row)) << id << " " << row;
    }
  }
}

std::string CampaignId(const std::string& report) { return Golden::CampaignOf(report); }

TEST(Golden, EveryFinding) {
  const Golden golden = Golden::FromSeedResults();
  std::set<std::string> rules, expected, found;
  std::map<std::string, Json> evidence;
  const Json oracle = ReadSeedJson("golden-findings.json");
  for (const Json& finding : oracle["findings"]) {
    rules.insert(finding["rule"].get<std::string>());
    const std::string key = fmt::format(
        "{} {} {} {} {} {}", finding["rule"].get<std::string>(), CampaignId(finding["report"]),
        finding["scenario"].get<std::string>(), finding["config"].get<std::string>(),
        finding["concurrency"].get<int>(), finding["severity"].get<std::string>());
    expected.insert(key);
    evidence[key] = finding["evidence"];
  }
  for (const Hit& hit : golden.analysis.hits) {
    if (!rules.contains(hit.rule)) continue;
    const std::string key = fmt::format("{} {} {} {} {} {}", hit.rule, hit.campaign, hit.scenario,
                                        hit.configuration, hit.concurrency, hit.grade);
    EXPECT_TRUE(found.insert(key).second) << key;
    if (!evidence.contains(key)) continue;
    for (const auto& [name, value] : evidence[key].items()) {
      const EvidenceItem* item = hit.Find(name);
      if (value.is_null()) {
        EXPECT_EQ(item, nullptr) << key << " " << name;
        continue;
      }
      ASSERT_NE(item, nullptr) << key << " " << name;
      EXPECT_NEAR(*item->value, value.get<double>(), 5.1e-5 * std::max(1.0, std::abs(*item->value)))
          << key << " " << name;
    }
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(found.size(), 79u);
}

// Statements of authors, and the oracles themselves, must not feed any figure: without them, and
// with wrong ones, every table but that of checked statements stays as it is.
TEST(Golden, NothingComesFromStatements) {
  const Golden golden = Golden::FromSeedResults();
  for (const bool corrupt : {false, true}) {
    const std::filesystem::path dir =
        std::filesystem::temp_directory_path() / fmt::format("golden_test_{}", getpid());
    std::filesystem::create_directories(dir);
    for (const auto& entry : std::filesystem::directory_iterator(Golden::SeedDirectory())) {
      const std::string name = entry.path().filename();
      const auto text = ReadFile(entry.path());
      ASSERT_TRUE(text.ok());
      if (name.starts_with("golden-")) continue;
      if (!name.ends_with(".json")) {
        ASSERT_TRUE(WriteFileAtomically(dir / name, *text).ok());
        continue;
      }
      Json json = *ParseJson(*text, name);
      ChangeStatements(corrupt, &json);
      ASSERT_TRUE(WriteFileAtomically(dir / name, DumpJson(json, 1)).ok());
    }
    const Golden without = Golden::From(dir);
    std::filesystem::remove_all(dir);
    int tables = 0;
    for (const Section& section : golden.document.sections) {
      for (const Block& block : section.blocks) {
        const Table* table = std::get_if<Table>(&block);
        if (table == nullptr || table->id == "claims" || table->id == "runs") continue;
        const Table* other = FindTable(without.document, table->id);
        ASSERT_NE(other, nullptr) << table->id;
        EXPECT_EQ(Golden::Text(*other), Golden::Text(*table)) << table->id;
        ++tables;
      }
    }
    EXPECT_GT(tables, 40);
    const Table* claims = FindTable(without.document, "claims");
    if (!corrupt) {
      EXPECT_EQ(claims, nullptr);
      continue;
    }
    ASSERT_NE(claims, nullptr);
    const int32_t holds = ColumnIndex(*claims, "holds");
    for (const auto& row : claims->rows)
      EXPECT_EQ(row[holds].text, Say(Language::kEnglish, "claim.fails"));
  }
}

TEST(Golden, StatementsOfTheReportsHold) {
  const Golden golden = Golden::FromSeedResults();
  const Table* claims = FindTable(golden.document, "claims");
  ASSERT_NE(claims, nullptr);
  const int32_t holds = ColumnIndex(*claims, "holds");
  for (const auto& row : claims->rows) {
    EXPECT_EQ(row[holds].text, Say(Language::kEnglish, "claim.holds"))
        << row[0].text << " " << row[1].text;
  }
  // 7 of A, 18 of B, 18 improvements and 6 totals of C.
  EXPECT_EQ(claims->rows.size(), 49u);
}

TEST(Golden, TheFilesOfTheToolsTellTheSame) {
  const Golden all = Golden::FromSeedResults();
  const std::string dir = Golden::SeedDirectory();
  const Golden lines =
      Golden::From(std::vector<std::string>{dir + "/dspark-grid-evaluation.sglang.jsonl",
                                            dir + "/deepseek-v4-inference-evaluation.vllm.jsonl",
                                            dir + "/deepseek-v4-inference-evaluation.sglang.jsonl",
                                            dir + "/dspark-vs-eagle-comparison.sglang.jsonl"});
  // Every run of the tables, told once.
  size_t measured = 0;
  for (const auto& run : all.analysis.results->runs) measured += run.quoted ? 0 : 1;
  EXPECT_EQ(measured, 18u + 20u + 36u);
  EXPECT_EQ(lines.analysis.results->runs.size(), measured);
  for (const char* table : {"winners", "ratios", "win-counts"}) {
    const std::string id = std::string(table) + "-dspark-vs-eagle-comparison";
    ASSERT_NE(FindTable(lines.document, id), nullptr) << id;
    EXPECT_EQ(Golden::Text(*FindTable(lines.document, id)),
              Golden::Text(*FindTable(all.document, id)));
  }
}

}  // namespace
}  // namespace firesteel
