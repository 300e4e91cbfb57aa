// What other threads ask of the engine thread: requests, cancels, tasks, the end. A bounded queue
// with one lock and two condition variables, and the count of requests that were accepted and have
// not ended.
//
// Thread-safe; TakeInto, WaitForWork, SetWaiting and NoteEnded are for the engine thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/sequence.h"
#include "firesteel/status.h"

namespace firesteel {

class Inbox {
 public:
  struct Content {
    std::vector<std::unique_ptr<Sequence>> arrivals;  // in order of id
    std::vector<RequestId> cancels;  // may name requests among the arrivals, or none
    std::vector<std::function<void()>> tasks;
    bool cancel_all = false;
  };

  explicit Inbox(int32_t max_waiting) : max_waiting_(max_waiting) {}

  // Gives the request its id. kResourceExhausted when `max_waiting` wait already; kUnavailable once
  // closed.
  Result<RequestId> Push(std::unique_ptr<Sequence> sequence);
  void Cancel(RequestId id);
  void CancelAll();
  void Post(std::function<void()> task);
  void Close();  // no more requests
  void Stop();   // WaitForWork returns false from now on

  // Waits until all accepted requests have ended; false after `timeout_ms` (negative: for ever).
  bool WaitUntilEnded(int64_t timeout_ms);

  void TakeInto(Content* content);
  // Returns at once when `busy`, else when there is something to take. False: stopped.
  bool WaitForWork(bool busy);
  void SetWaiting(int32_t waiting);  // requests that the scheduler has not admitted yet
  void NoteEnded(int32_t count);

  int32_t NumPending() const;  // pushed, not yet taken

 private:
  const int32_t max_waiting_;
  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable ended_;
  Content content_;
  RequestId next_id_ = 1;
  int32_t waiting_ = 0;
  int64_t outstanding_ = 0;  // accepted, not yet ended
  bool closed_ = false;
  bool stopped_ = false;
};

}  // namespace firesteel
