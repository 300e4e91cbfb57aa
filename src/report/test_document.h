// For tests: a document with every kind of block and chart, on made-up figures, and texts that try
// to leave their place.
#pragma once

#include "analysis/document.h"

namespace firesteel {

Document TestDocument(Language language);

}  // namespace firesteel
