#include "analysis/strings.h"

#include <fmt/args.h>
#include <fmt/format.h>

#include <map>

#include "analysis/strings_internal.h"
#include "base/check.h"

namespace firesteel {

std::optional<Language> ParseLanguage(std::string_view name) {
  if (name == "en") return Language::kEnglish;
  if (name == "zh") return Language::kChinese;
  return std::nullopt;
}

const char* LanguageTag(Language language) { return language == Language::kEnglish ? "en" : "zh"; }

const std::vector<StringRow>& StringTable() {
  static const std::vector<StringRow> rows = [] {
    std::vector<StringRow> all;
    for (const auto& part : {ReportStrings(), TableStrings(), FindingStrings(), AdviceStrings()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return rows;
}

std::string Say(Language language, std::string_view key,
                const std::vector<std::string>& arguments) {
  static const std::map<std::string_view, const StringRow*> by_key = [] {
    std::map<std::string_view, const StringRow*> rows;
    for (const StringRow& row : StringTable()) {
      FS_CHECK(rows.emplace(row.key, &row).second);
    }
    return rows;
  }();
  const auto row = by_key.find(key);
  FS_CHECK(row != by_key.end());
  fmt::dynamic_format_arg_store<fmt::format_context> store;
  for (const std::string& argument : arguments) store.push_back(argument);
  return fmt::vformat(language == Language::kEnglish ? row->second->english : row->second->chinese,
                      store);
}

}  // namespace firesteel
