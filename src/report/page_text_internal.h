// The words of the page itself: buttons, headings of its own, words between a document's texts.
#pragma once

#include "analysis/strings.h"

namespace firesteel {

struct PageText {
  const char* kicker;
  const char* contents;
  const char* theme;
  const char* sort;
  const char* filter;
  const char* run;
  const char* runs;
  const char* runs_note;
  const char* data;
  const char* series;
  const char* interval;
  const char* thinned;  // {0}: shown, {1}: of how many
  const char* no_charts;
  const char* evidence;
  const char* alternatives;
  const char* confidence;
  const char* confidence_levels[3];  // as the enum
  const char* severities[3];         // as the enum
  const char* effect;
  const char* experiment;
  const char* basis;
  const char* source_columns[6];  // run, campaign, scenario, configuration, concurrency, file
  const char* line;               // {0}: its number
  const char* summary;            // {0}: runs, {1}: files
  const char* footer;
};

const PageText& WordsOf(Language language);

}  // namespace firesteel
