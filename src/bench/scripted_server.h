// For tests: an HTTP server that answers as told, byte for byte, in pieces and at times of the
// test's choosing, and notes when it really wrote.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace firesteel {

struct ScriptedAnswer {
  int status = 200;
  std::vector<std::string> pieces = {};  // of the body, each its own chunk and its own write
  bool cut = false;                      // close the connection where the body should go on
  // Before each piece, from the one before it (the first: from the request). Shorter than `pieces`:
  // the rest without delay.
  std::vector<int64_t> delays_us = {};
  std::string content_type = "text/event-stream";
  bool keep_alive = false;
  bool close_after = false;  // close behind a whole answer, whatever its headers said
  // Called with the monotonic time just before each piece was written.
  std::function<void(size_t piece, int64_t now_ns)> on_write = nullptr;
};

class ScriptedServer {
 public:
  // `answer` runs on a thread of each connection, several at once; it may block. `target` is "POST
  // /v1/completions".
  using Handler = std::function<ScriptedAnswer(const std::string& target, const std::string& body)>;

  explicit ScriptedServer(Handler handler);
  ~ScriptedServer();  // waits for all answers

  std::string base_url() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace firesteel
