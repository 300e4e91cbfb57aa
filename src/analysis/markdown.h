// A document as GitHub-flavoured Markdown. Charts become tables of their points: Markdown draws
// nothing.
#pragma once

#include <string>

#include "analysis/document.h"

namespace firesteel {

std::string RenderMarkdown(const Document& document);

}  // namespace firesteel
