// A report as one HTML page: style, scripts, the charting library and all data inside, so that it
// opens anywhere and asks the network for nothing.
//
// Tables and the data behind every chart are plain HTML: without scripting, or in a build without
// the charting library, the page says the same, only not drawn. Numbers link to their runs in the
// last section. Text of the document comes from result files of strangers: all of it is escaped.
#pragma once

#include <string>

#include "analysis/document.h"

namespace firesteel {

// Equal documents give equal pages. Thread-safe.
std::string RenderHtml(const Document& document);

// Whether this build carries the charting library (EMBED_CHARTS).
bool HtmlHasCharts();

}  // namespace firesteel
