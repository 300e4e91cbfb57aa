#include "net/sse.h"

#include <cstddef>
#include <utility>

namespace firesteel {
namespace {

constexpr std::string_view kBom = "\xEF\xBB\xBF";

size_t FindLineEnd(std::string_view bytes) {
  size_t i = 0;
  while (i < bytes.size() && bytes[i] != '\n' && bytes[i] != '\r') ++i;
  return i;
}

}  // namespace

void SseParser::Push(std::string_view bytes,
                     const std::function<void(std::string_view data)>& on_event) {
  while (!bytes.empty()) {
    // The second half of a \r\n, which may arrive alone in the next piece.
    if (skip_lf_) {
      skip_lf_ = false;
      if (bytes.front() == '\n') {
        bytes.remove_prefix(1);
        continue;
      }
    }
    const size_t end = FindLineEnd(bytes);
    if (end == bytes.size()) {
      line_.append(bytes);
      return;
    }
    skip_lf_ = bytes[end] == '\r';
    std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    if (!line_.empty()) {
      line_.append(line);
      line = line_;
    }
    EndLine(line, on_event);
    line_.clear();
  }
}

void SseParser::EndLine(std::string_view line,
                        const std::function<void(std::string_view data)>& on_event) {
  if (!started_) {
    started_ = true;
    if (line.substr(0, kBom.size()) == kBom) line.remove_prefix(kBom.size());
  }
  if (line.empty()) return Dispatch(on_event);
  const size_t colon = line.find(':');
  std::string_view value;
  if (colon != std::string_view::npos) value = line.substr(colon + 1);
  if (!value.empty() && value.front() == ' ') value.remove_prefix(1);
  const std::string_view field = line.substr(0, colon);
  if (field == "data") {
    if (has_data_) data_.push_back('\n');
    data_.append(value);
    has_data_ = true;
  } else if (field == "event") {
    event_type_ = value;
  }
}

void SseParser::Dispatch(const std::function<void(std::string_view data)>& on_event) {
  if (has_data_) {
    // Moved out first: the parser stands between two events while the callback runs.
    const std::string data = std::move(data_);
    data_.clear();
    has_data_ = false;
    on_event(data);
  }
  event_type_.clear();
}

bool SseParser::Finish(const std::function<void(std::string_view data)>& on_event) {
  if (!line_.empty()) {
    const std::string line = std::move(line_);
    line_.clear();
    EndLine(line, on_event);
  }
  const bool pending = has_data_;
  Dispatch(on_event);
  return pending;
}

std::string SseEvent(std::string_view data) {
  std::string event;
  event.reserve(data.size() + 8);
  while (true) {
    const size_t end = FindLineEnd(data);
    event.append("data: ").append(data.substr(0, end)).push_back('\n');
    if (end == data.size()) break;
    const bool crlf = data[end] == '\r' && end + 1 < data.size() && data[end + 1] == '\n';
    data.remove_prefix(end + (crlf ? 2 : 1));
  }
  event.push_back('\n');
  return event;
}

}  // namespace firesteel
