#include "report/page_assets_internal.h"

// The assembler copies the files in: a megabyte of array elements would cost the compiler seconds.
// Paths come from CMake.
#define FS_EMBED(symbol, path)                                                \
  asm(".section .rodata, \"a\"\n" #symbol ":\n.incbin \"" path "\"\n" #symbol \
      "_end:\n.byte 0\n.previous\n");                                         \
  extern "C" const char symbol[];                                             \
  extern "C" const char symbol##_end[]

FS_EMBED(firesteel_page_style, FIRESTEEL_PAGE_DIR "/report.css");
FS_EMBED(firesteel_page_script, FIRESTEEL_PAGE_DIR "/report.js");
FS_EMBED(firesteel_chart_script, FIRESTEEL_PAGE_DIR "/charts.js");
#ifdef FIRESTEEL_ECHARTS
FS_EMBED(firesteel_charting_library, FIRESTEEL_ECHARTS);
#endif

namespace firesteel {
namespace {

std::string_view Between(const char* begin, const char* end) {
  return {begin, static_cast<size_t>(end - begin)};
}

}  // namespace

std::string_view PageStyle() { return Between(firesteel_page_style, firesteel_page_style_end); }
std::string_view PageScript() { return Between(firesteel_page_script, firesteel_page_script_end); }
std::string_view ChartScript() {
  return Between(firesteel_chart_script, firesteel_chart_script_end);
}

std::string_view ChartingLibrary() {
#ifdef FIRESTEEL_ECHARTS
  return Between(firesteel_charting_library, firesteel_charting_library_end);
#else
  return {};
#endif
}

}  // namespace firesteel
