// The files that every page carries, embedded in the binary.
#pragma once

#include <string_view>

namespace firesteel {

std::string_view PageStyle();
std::string_view PageScript();       // sorting, filtering, theme
std::string_view ChartScript();      // draws the charts
std::string_view ChartingLibrary();  // "" in a build without it

}  // namespace firesteel
