#include "engine/inbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace firesteel {

Result<RequestId> Inbox::Push(std::unique_ptr<Sequence> sequence) {
  std::lock_guard lock(mutex_);
  if (closed_) return Unavailable("the engine is draining and takes no new requests");
  const auto waiting = waiting_ + static_cast<int32_t>(content_.arrivals.size());
  if (waiting >= max_waiting_) {
    return ResourceExhausted(
        fmt::format("{} requests are waiting, the queue takes {}", waiting, max_waiting_));
  }
  const RequestId id = next_id_++;
  sequence->id = id;
  content_.arrivals.push_back(std::move(sequence));
  ++outstanding_;
  work_.notify_one();
  return id;
}

void Inbox::Cancel(RequestId id) {
  std::lock_guard lock(mutex_);
  content_.cancels.push_back(id);
  work_.notify_one();
}

void Inbox::CancelAll() {
  std::lock_guard lock(mutex_);
  content_.cancel_all = true;
  work_.notify_one();
}

void Inbox::Post(std::function<void()> task) {
  std::lock_guard lock(mutex_);
  content_.tasks.push_back(std::move(task));
  work_.notify_one();
}

void Inbox::Close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

void Inbox::Stop() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  stopped_ = true;
  work_.notify_one();
}

bool Inbox::WaitUntilEnded(int64_t timeout_ms) {
  std::unique_lock lock(mutex_);
  const auto done = [this] { return outstanding_ == 0; };
  if (timeout_ms < 0) {
    ended_.wait(lock, done);
    return true;
  }
  // A century, above which the clock's nanoseconds would overflow.
  constexpr int64_t kMost = int64_t{100} * 365 * 24 * 3600 * 1000;
  return ended_.wait_for(lock, std::chrono::milliseconds(std::min(timeout_ms, kMost)), done);
}

void Inbox::TakeInto(Content* content) {
  *content = Content();
  std::lock_guard lock(mutex_);
  std::swap(*content, content_);
  waiting_ += static_cast<int32_t>(content->arrivals.size());
}

bool Inbox::WaitForWork(bool busy) {
  std::unique_lock lock(mutex_);
  work_.wait(lock, [&] {
    return busy || stopped_ || !content_.arrivals.empty() || !content_.cancels.empty() ||
           !content_.tasks.empty() || content_.cancel_all;
  });
  return !stopped_;
}

void Inbox::SetWaiting(int32_t waiting) {
  std::lock_guard lock(mutex_);
  waiting_ = waiting;
}

void Inbox::NoteEnded(int32_t count) {
  std::lock_guard lock(mutex_);
  outstanding_ -= count;
  if (outstanding_ == 0) ended_.notify_all();
}

int32_t Inbox::NumPending() const {
  std::lock_guard lock(mutex_);
  return static_cast<int32_t>(content_.arrivals.size());
}

}  // namespace firesteel
