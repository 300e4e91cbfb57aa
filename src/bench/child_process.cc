#include "bench/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/clock.h"

namespace firesteel {
namespace {

constexpr int kExecFailed = 127;
constexpr auto kWaitInterval = std::chrono::milliseconds(10);

// In the child: system calls alone, since other threads of the parent may hold any lock.
[[noreturn]] void RunChild(char* const* argv, int out, int err, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kExecFailed);  // the parent died before the line above
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int in = open("/dev/null", O_RDONLY);
  dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  execv(argv[0], argv);
  const char* reason = strerror(errno);
  (void)!write(STDERR_FILENO, reason, strlen(reason));
  _exit(kExecFailed);
}

std::string Describe(int wait_status) {
  if (WIFSIGNALED(wait_status)) return fmt::format("signal {}", WTERMSIG(wait_status));
  return fmt::format("exit code {}", WEXITSTATUS(wait_status));
}

}  // namespace

Result<std::unique_ptr<ChildProcess>> ChildProcess::Start(const std::vector<std::string>& argv,
                                                          const std::string& stdout_path,
                                                          const std::string& stderr_path) {
  int files[2];
  const std::string* paths[2] = {&stdout_path, &stderr_path};
  for (int i = 0; i < 2; ++i) {
    files[i] = open(paths[i]->c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (files[i] < 0) {
      const std::string reason = strerror(errno);
      if (i == 1) close(files[0]);
      return NotFound(fmt::format("{}: cannot be written: {}", *paths[i], reason));
    }
  }
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) RunChild(arguments.data(), files[0], files[1], parent);
  const std::string reason = strerror(errno);
  close(files[0]);
  close(files[1]);
  if (pid < 0) return Unavailable(fmt::format("{}: cannot be started: {}", argv[0], reason));
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid));
}

ChildProcess::~ChildProcess() {
  if (wait_status_) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<std::string> ChildProcess::Ended() {
  int status = 0;
  if (!wait_status_ && waitpid(pid_, &status, WNOHANG) == pid_) wait_status_ = status;
  if (!wait_status_) return std::nullopt;
  return Describe(*wait_status_);
}

Status ChildProcess::Terminate(int64_t timeout_ms) {
  if (!Ended()) kill(pid_, SIGTERM);
  const int64_t deadline_ns = Clock::Real().NowNs() + timeout_ms * 1'000'000;
  while (!Ended()) {
    if (Clock::Real().NowNs() > deadline_ns) {
      kill(pid_, SIGKILL);
      int status = 0;
      while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
      }
      wait_status_ = status;
      return Internal(fmt::format("process {} did not end within {} ms of SIGTERM and was killed",
                                  pid_, timeout_ms));
    }
    std::this_thread::sleep_for(kWaitInterval);
  }
  if (*wait_status_ != 0) {
    return Internal(fmt::format("process {} ended with {}", pid_, Describe(*wait_status_)));
  }
  return {};
}

}  // namespace firesteel
