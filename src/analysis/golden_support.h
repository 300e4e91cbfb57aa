// For tests: the seed results analysed, and figures of the document found by what stands beside
// them.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analysis/analysis.h"
#include "analysis/document.h"
#include "base/json.h"

namespace firesteel {

struct Golden {
  Analysis analysis;
  Document document;

  static Golden FromSeedResults();
  static Golden From(const std::string& directory);
  static Golden From(const std::vector<std::string>& paths);
  static std::string SeedDirectory();
  static std::string CampaignOf(const std::string& report);  // "A", "B", "C" -> its id; "" of ""

  // The cell of `column` in the first row of `stem`-<campaign> whose other columns read as given;
  // nullptr without one.
  const Cell* At(const std::string& stem, const std::string& report,
                 const std::map<std::string, std::string>& row, const std::string& column) const;
  // The row whose configuration was measured by that run.
  const Cell* OfRun(const std::string& stem, const std::string& report, const std::string& run,
                    const std::string& column) const;
  // The hit of that rule with these values, nullptr without one. "" and 0 match anything.
  const Hit* HitOf(const std::string& rule, const std::string& report,
                   const std::string& scenario = "", const std::string& configuration = "",
                   int32_t concurrency = 0) const;

  static std::string Text(const Table& table);  // all cells, one row a line
};

Json ReadSeedJson(const std::string& name);
// "C.win.chat_short.1" at dots that separate: names hold none.
std::vector<std::string> SplitId(const std::string& id);
std::pair<std::string, std::string> SplitRange(const std::string& range);  // "4-8"
// Removes every stated_… key, or doubles and shifts the numbers below it.
void ChangeStatements(bool corrupt, Json* json);

}  // namespace firesteel
