// The parts of the string table, one per file.
#pragma once

#include <span>

#include "analysis/strings.h"

namespace firesteel {

std::span<const StringRow> ReportStrings();   // titles, sections, charts
std::span<const StringRow> TableStrings();    // columns, evidence, verdicts
std::span<const StringRow> FindingStrings();  // what rules found, and what it means
std::span<const StringRow> AdviceStrings();   // what to change

}  // namespace firesteel
