#include "analysis/run.h"

namespace firesteel {
namespace {

std::optional<double> PerRequest(const std::optional<int64_t>& tokens,
                                 const std::optional<int64_t>& requests) {
  if (!tokens || !requests || *requests <= 0) return std::nullopt;
  return static_cast<double>(*tokens) / static_cast<double>(*requests);
}

}  // namespace

const char* ResultFormatName(ResultFormat format) {
  switch (format) {
    case ResultFormat::kNative:
      return "firesteel";
    case ResultFormat::kSummary:
      return "firesteel summary";
    case ResultFormat::kVllm:
      return "vllm";
    case ResultFormat::kSglang:
      return "sglang";
    case ResultFormat::kReportTable:
      return "report table";
  }
  return "";
}

std::optional<double> RunWork::MeanInput() const {
  return PerRequest(input_tokens, completed ? completed : prompts);
}

std::optional<double> RunWork::MeanOutput() const {
  return PerRequest(output_tokens, completed ? completed : prompts);
}

}  // namespace firesteel
