// Server-sent events: a parser that takes bytes cut anywhere, and the encoder.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace firesteel {

// Calls back with the data of each event (lines joined by \n). Comments, other fields, \r\n and a
// BOM are handled.
class SseParser {
 public:
  void Push(std::string_view bytes, const std::function<void(std::string_view data)>& on_event);

 private:
  std::string line_;
  std::string data_;
  bool has_data_ = false;
  bool skip_lf_ = false;
  bool started_ = false;
};

std::string SseEvent(std::string_view data);  // "data: …\n\n"

}  // namespace firesteel
