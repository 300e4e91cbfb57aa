#include "cli/signal_watcher.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <utility>

#include "base/check.h"

namespace firesteel {
namespace {

sigset_t StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

void Watch(int signals, int quit, const std::function<void(int)>& on_signal) {
  pollfd fds[2] = {{signals, POLLIN, 0}, {quit, POLLIN, 0}};
  int count = 0;
  for (;;) {
    if (poll(fds, 2, -1) < 0) {
      FS_CHECK(errno == EINTR);
      continue;
    }
    if (fds[1].revents != 0) return;
    signalfd_siginfo info;
    if (read(signals, &info, sizeof(info)) == sizeof(info)) on_signal(++count);
  }
}

}  // namespace

SignalWatcher::SignalWatcher(std::function<void(int count)> on_signal) {
  const sigset_t set = StopSignals();
  FS_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  signals_ = signalfd(-1, &set, SFD_CLOEXEC);
  quit_ = eventfd(0, EFD_CLOEXEC);
  FS_CHECK(signals_ >= 0 && quit_ >= 0);
  thread_ =
      std::thread([this, on_signal = std::move(on_signal)] { Watch(signals_, quit_, on_signal); });
}

SignalWatcher::~SignalWatcher() {
  const uint64_t one = 1;
  FS_CHECK(write(quit_, &one, sizeof(one)) == sizeof(one));
  thread_.join();
  close(signals_);
  close(quit_);
  const sigset_t set = StopSignals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace firesteel
