// Every sentence a report can hold, in its languages, in one table (strings.cc and
// strings_*.cc): builders and renderers name a text by its key.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace firesteel {

enum class Language { kEnglish, kChinese };

std::optional<Language> ParseLanguage(std::string_view name);  // "en", "zh"
const char* LanguageTag(Language language);                    // "en", "zh"

// One row of the table. Texts are fmt formats with positional arguments ({0}, {1}), so that a
// language may order them as it likes; all arguments are strings.
struct StringRow {
  const char* key;
  const char* english;
  const char* chinese;
};

// All rows, in no order that matters. Keys are unique.
const std::vector<StringRow>& StringTable();

// The text of `key` with `arguments` put in. An unknown key, or more places than arguments, is a
// fault of this program and ends it: tests ask for every key in every language.
std::string Say(Language language, std::string_view key,
                const std::vector<std::string>& arguments = {});

}  // namespace firesteel
