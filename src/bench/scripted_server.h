// For tests: an HTTP server that answers as told, byte for byte, in pieces of the test's choosing.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace firesteel {

struct ScriptedAnswer {
  int status = 200;
  std::vector<std::string> pieces = {};  // of the body, each its own chunk and its own write
  bool cut = false;                      // close the connection where the body should go on
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
