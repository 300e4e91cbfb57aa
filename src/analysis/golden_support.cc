#include "analysis/golden_support.h"

#include <gtest/gtest.h>

#include "analysis/import.h"
#include "analysis/report.h"
#include "base/check.h"
#include "base/mapped_file.h"

namespace firesteel {
namespace {

void Corrupt(Json* json) {
  if (json->is_number()) {
    *json = 2 * json->get<double>() + 1;
  } else if (json->is_structured()) {
    for (auto& [key, value] : json->items()) {
      if (key != "concurrency" && key != "spec_tokens") Corrupt(&value);
    }
  }
}

}  // namespace

Golden Golden::From(const std::vector<std::string>& paths) {
  Result<Results> results = ImportResults(paths);
  FS_CHECK(results.ok(), "{}", results.status().message());
  Result<Analysis> analysis = Analyze(*std::move(results), {});
  FS_CHECK(analysis.ok(), "{}", analysis.status().message());
  Golden golden;
  golden.analysis = *std::move(analysis);
  golden.document = BuildReport(golden.analysis, Language::kEnglish);
  return golden;
}

Golden Golden::From(const std::string& directory) {
  return From(std::vector<std::string>{directory});
}

Golden Golden::FromSeedResults() { return From(SeedDirectory()); }

std::string Golden::SeedDirectory() {
  return FIRESTEEL_SOURCE_DIR "/src/analysis/testdata/seed-results";
}

std::string Golden::CampaignOf(const std::string& report) {
  return report == "A"   ? "dspark-grid-evaluation"
         : report == "B" ? "deepseek-v4-inference-evaluation"
         : report == "C" ? "dspark-vs-eagle-comparison"
                         : "";
}

const Cell* Golden::At(const std::string& stem, const std::string& report,
                       const std::map<std::string, std::string>& row,
                       const std::string& column) const {
  const std::string campaign = CampaignOf(report);
  const Table* table = FindTable(document, campaign.empty() ? stem : stem + "-" + campaign);
  if (table == nullptr || ColumnIndex(*table, column) < 0) return nullptr;
  for (const std::vector<Cell>& cells : table->rows) {
    bool all = true;
    for (const auto& [name, text] : row) {
      const int32_t at = ColumnIndex(*table, name);
      all &= at >= 0 && CellText(cells[at]) == text;
    }
    if (all) return &cells[ColumnIndex(*table, column)];
  }
  return nullptr;
}

const Cell* Golden::OfRun(const std::string& stem, const std::string& report,
                          const std::string& run, const std::string& column) const {
  const Table* table = FindTable(document, stem + "-" + CampaignOf(report));
  if (table == nullptr || ColumnIndex(*table, column) < 0) return nullptr;
  const int32_t configuration = ColumnIndex(*table, "configuration");
  for (const std::vector<Cell>& cells : table->rows) {
    for (const int32_t source : cells[configuration].sources) {
      if (document.sources[source].id == run) return &cells[ColumnIndex(*table, column)];
    }
  }
  return nullptr;
}

const Hit* Golden::HitOf(const std::string& rule, const std::string& report,
                         const std::string& scenario, const std::string& configuration,
                         int32_t concurrency) const {
  for (const Hit& hit : analysis.hits) {
    if (hit.rule == rule && hit.campaign == CampaignOf(report) &&
        (scenario.empty() || hit.scenario == scenario) &&
        (configuration.empty() || hit.configuration == configuration) &&
        (concurrency == 0 || hit.concurrency == concurrency))
      return &hit;
  }
  return nullptr;
}

std::string Golden::Text(const Table& table) {
  std::string text;
  for (const std::vector<Cell>& row : table.rows) {
    for (const Cell& cell : row) text += CellText(cell) + "|";
    text += '\n';
  }
  return text;
}

Json ReadSeedJson(const std::string& name) {
  const auto text = ReadFile(Golden::SeedDirectory() + "/" + name);
  FS_CHECK(text.ok());
  return *ParseJson(*text, name);
}

std::vector<std::string> SplitId(const std::string& id) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end = id.find('.'); end != std::string::npos; end = id.find('.', begin)) {
    parts.push_back(id.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.push_back(id.substr(begin));
  return parts;
}

std::pair<std::string, std::string> SplitRange(const std::string& range) {
  const size_t dash = range.find('-');
  return {range.substr(0, dash), range.substr(dash + 1)};
}

void ChangeStatements(bool corrupt, Json* json) {
  if (json->is_object()) {
    std::vector<std::string> stated;
    for (auto& [key, value] : json->items()) {
      if (key.starts_with("stated_")) {
        if (corrupt) Corrupt(&value);
        stated.push_back(key);
      } else {
        ChangeStatements(corrupt, &value);
      }
    }
    for (const std::string& key : stated) {
      if (!corrupt) json->erase(key);
    }
  } else if (json->is_array()) {
    for (Json& value : *json) ChangeStatements(corrupt, &value);
  }
}

}  // namespace firesteel
