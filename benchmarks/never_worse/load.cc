#include "never_worse/load.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

namespace firesteel {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Ended {
  double first = 0, last = 0;  // when tokens came
  int64_t tokens = 0;
  Status error;
};

class ClosedLoop {
 public:
  ClosedLoop(Engine& engine, const Load& load) : engine_(engine), load_(load) {}

  Result<LoadResult> Run() {
    const double begin = Now();
    const Status status = Serve();
    for (const RequestId id : ids_) engine_.Cancel(id);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return num_ended_ == ids_.size(); });
    if (!status.ok()) return status;
    result_.seconds = last_token_ - begin;
    result_.tokens = tokens_;
    result_.tokens_per_second = static_cast<double>(tokens_) / result_.seconds;
    return std::move(result_);
  }

 private:
  Status Serve() {
    for (int32_t i = 0; i < std::min(load_.concurrency, load_.num_requests); ++i) {
      FS_TRY(Submit());
    }
    for (int32_t left = load_.num_requests; left > 0;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !ended_.empty(); });
      const std::vector<Ended> ended = std::exchange(ended_, {});
      lock.unlock();
      for (const Ended& e : ended) {
        FS_TRY(e.error);
        --left;
        last_token_ = std::max(last_token_, e.last);
        if (e.tokens > 1) {
          result_.tpot_seconds.push_back((e.last - e.first) / static_cast<double>(e.tokens - 1));
        }
        if (std::ssize(ids_) < load_.num_requests) FS_TRY(Submit());
      }
    }
    return {};
  }

  Status Submit() {
    Request request;
    const auto index = std::ssize(ids_);
    request.prompt = load_.prompt(index);
    request.sampling.temperature = 0;
    request.sampling.ignore_eos = true;
    request.sampling.max_tokens = load_.max_tokens(index);
    request.sampling.spec_tokens = load_.spec_tokens;
    const auto of_request = std::make_shared<Ended>();
    FS_ASSIGN(const RequestId id,
              engine_.Submit(std::move(request), [this, of_request](TokenEvent event) {
                of_request->last = Now();
                if (of_request->tokens == 0) of_request->first = of_request->last;
                of_request->tokens += static_cast<int64_t>(event.tokens.size());
                std::lock_guard lock(mutex_);
                tokens_ += static_cast<int64_t>(event.tokens.size());
                if (!event.finish) return;
                of_request->error = event.error;
                ended_.push_back(*of_request);
                ++num_ended_;
                changed_.notify_one();
              }));
    ids_.push_back(id);
    return {};
  }

  Engine& engine_;
  const Load& load_;
  std::vector<RequestId> ids_;
  LoadResult result_;
  double last_token_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Ended> ended_;  // and not yet replaced
  size_t num_ended_ = 0;
  int64_t tokens_ = 0;
};

}  // namespace

Result<LoadResult> RunLoad(Engine& engine, const Load& load) {
  return ClosedLoop(engine, load).Run();
}

}  // namespace firesteel
