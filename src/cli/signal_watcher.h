// SIGINT and SIGTERM as calls on a thread of their own, where any code may run, instead of in a
// signal handler.
#pragma once

#include <functional>
#include <thread>

namespace firesteel {

class SignalWatcher {
 public:
  // Blocks both signals in the calling thread and those it starts later: construct before starting
  // any. `on_signal` hears the first signal with 1, the second with 2 …
  explicit SignalWatcher(std::function<void(int count)> on_signal);
  ~SignalWatcher();  // the signals end the process again
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

 private:
  int signals_;  // signalfd
  int quit_;     // eventfd
  std::thread thread_;
};

}  // namespace firesteel
