// An analysis as a document, in one language. Deterministic: equal results give equal documents.
#pragma once

#include "analysis/analysis.h"
#include "analysis/document.h"

namespace firesteel {

Document BuildReport(const Analysis& analysis, Language language);

}  // namespace firesteel
