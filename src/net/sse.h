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
  // The end of the body: what is pending without its blank line becomes an event too. Real servers
  // end like that, though the standard would drop it. True when there was something.
  bool Finish(const std::function<void(std::string_view data)>& on_event);
  // In the callback: the event's "event:" field, "" without one.
  const std::string& event_type() const { return event_type_; }

 private:
  void EndLine(std::string_view line, const std::function<void(std::string_view data)>& on_event);
  void Dispatch(const std::function<void(std::string_view data)>& on_event);

  std::string line_;
  std::string data_;
  std::string event_type_;
  bool has_data_ = false;
  bool skip_lf_ = false;
  bool started_ = false;
};

std::string SseEvent(std::string_view data);  // "data: …\n\n"

}  // namespace firesteel
