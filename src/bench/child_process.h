// A program started and, whatever happens, ended by us.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "firesteel/status.h"

namespace firesteel {

class ChildProcess {
 public:
  // Starts argv[0] (a path) with stdout and stderr written to the two files, in a process group of
  // its own, so that a terminal's Ctrl-C reaches us alone; the kernel kills it should this process
  // die. Call from a thread that lives on.
  static Result<std::unique_ptr<ChildProcess>> Start(const std::vector<std::string>& argv,
                                                     const std::string& stdout_path,
                                                     const std::string& stderr_path);
  ~ChildProcess();  // SIGKILL unless it ended

  pid_t pid() const { return pid_; }
  // "exit code 1" or "signal 9" once it ended, else nullopt. Does not wait.
  std::optional<std::string> Ended();
  // SIGTERM, then SIGKILL after `timeout_ms`. Waits. kInternal when it did not end by itself with
  // exit code 0.
  Status Terminate(int64_t timeout_ms);

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}

  pid_t pid_;
  std::optional<int> wait_status_;
};

}  // namespace firesteel
