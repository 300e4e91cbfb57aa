// For tests: an engine without a model. One thread gives every request a token a step, from a
// script.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "firesteel/engine.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace firesteel {

class ScriptedEngine : public Engine {
 public:
  struct Script {
    std::string text = "Hello, w\xC3\xB6rld!";  // one token a byte; ends with kStop
    int fail_after = -1;                        // tokens, then kError
    int hold_after = -1;                        // tokens, then waits for Release
    Status refuse = {};                         // what Submit says, when not ok …
    int accept_before_refusing = 0;             // … and this many are accepted first
    std::string stop_reason = {};
  };

  ScriptedEngine(std::unique_ptr<Tokenizer> tokenizer, Script script)
      : tokenizer_(std::move(tokenizer)), script_(std::move(script)) {
    summary_.name = "scripted";
    summary_.vocab_size = tokenizer_->vocab_size();
    summary_.max_model_len = 100;
    summary_.spec_tokens = 3;
    summary_.spec_method = "ngram";
    thread_ = std::thread([this] { Loop(); });
  }
  ~ScriptedEngine() override {
    {
      const std::lock_guard lock(mutex_);
      quit_ = true;
    }
    changed_.notify_all();
    thread_.join();
    for (auto& [id, job] : jobs_) End(job, FinishReason::kCancelled);
  }

  Result<RequestId> Submit(Request request, EventSink sink) override {
    const std::lock_guard lock(mutex_);
    if (draining_) return Unavailable("draining");
    if (!script_.refuse.ok() &&
        static_cast<int>(requests_.size()) >= script_.accept_before_refusing) {
      return script_.refuse;
    }
    const RequestId id = ++last_id_;
    requests_.push_back(request);
    jobs_.emplace(id, Job{.id = id,
                          .request = std::move(request),
                          .sink = std::move(sink),
                          .detokenizer = Detokenizer(*tokenizer_, true),
                          .usage = {}});
    changed_.notify_all();
    return id;
  }
  void Cancel(RequestId id) override {
    const std::lock_guard lock(mutex_);
    const auto job = jobs_.find(id);
    if (job == jobs_.end()) return;
    job->second.cancelled = true;
    changed_.notify_all();
  }
  void Drain(int64_t timeout_ms) override {
    std::unique_lock lock(mutex_);
    draining_ = true;
    changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                      [this] { return jobs_.empty(); });
    for (auto& [id, job] : jobs_) job.cancelled = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return jobs_.empty(); });
  }
  bool ResetPrefixCache() override {
    const std::lock_guard lock(mutex_);
    return jobs_.empty();
  }
  EngineStats Stats() const override {
    const std::lock_guard lock(mutex_);
    EngineStats stats = stats_;
    stats.running = static_cast<int32_t>(jobs_.size());
    return stats;
  }
  const ModelSummary& Summary() const override { return summary_; }
  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  const EngineOptions& options() const override { return options_; }

  void Release() {
    const std::lock_guard lock(mutex_);
    script_.hold_after = -1;
    changed_.notify_all();
  }
  std::vector<Request> Requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  // False when this many cancelled requests have not ended within 20 s.
  bool WaitForCancelled(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20),
                             [&] { return stats_.requests_cancelled >= count; });
  }
  bool WaitForRequests(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20),
                             [&] { return requests_.size() >= count; });
  }

 private:
  struct Job {
    RequestId id = 0;
    Request request;
    EventSink sink;
    Detokenizer detokenizer;
    Usage usage;
    bool cancelled = false;
  };

  void End(Job& job, FinishReason reason) {
    TokenEvent event;
    event.id = job.id;
    event.finish = reason;
    if (reason == FinishReason::kError) event.error = Internal("scripted failure");
    event.usage = job.usage;
    job.sink(std::move(event));
  }

  bool Held(const Job& job) const {
    return !job.cancelled && script_.hold_after >= 0 &&
           job.usage.completion_tokens >= script_.hold_after;
  }

  // True when the job has ended.
  bool StepJob(Job& job) {
    if (job.cancelled) {
      ++stats_.requests_cancelled;
      End(job, FinishReason::kCancelled);
      return true;
    }
    if (Held(job)) return false;
    if (job.usage.completion_tokens == script_.fail_after) {
      ++stats_.requests_failed;
      End(job, FinishReason::kError);
      return true;
    }
    TokenEvent event;
    event.id = job.id;
    const auto token = static_cast<int32_t>(
        static_cast<unsigned char>(script_.text[static_cast<size_t>(job.usage.completion_tokens)]));
    event.tokens = {token};
    event.text = job.detokenizer.Push(token);
    if (job.request.sampling.logprobs >= 0) {
      TokenLogprob logprob{.token = token, .logprob = -0.5f, .top = {}};
      for (int32_t i = 0; i < job.request.sampling.logprobs; ++i)
        logprob.top.emplace_back(token + i, -0.5f - i);
      event.logprobs.push_back(logprob);
    }
    ++job.usage.completion_tokens;
    ++stats_.generation_tokens;
    job.usage.prompt_tokens = static_cast<int32_t>(job.request.prompt.size());
    job.usage.cached_tokens = 1;
    job.usage.speculation = {.rounds = 4,
                             .drafted = 12,
                             .verified = 10,
                             .accepted = 5,
                             .accepted_per_position = {3, 2, 0}};
    if (job.usage.completion_tokens == job.request.sampling.max_tokens) {
      event.finish = FinishReason::kLength;
      event.text += job.detokenizer.Finish();
      ++stats_.requests_finished_length;
    } else if (job.usage.completion_tokens == static_cast<int32_t>(script_.text.size())) {
      event.finish = FinishReason::kStop;
      event.stop_reason = script_.stop_reason;
      ++stats_.requests_finished_stop;
    }
    event.usage = job.usage;
    const bool ended = event.finish.has_value();
    job.sink(std::move(event));
    return ended;
  }

  void Loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] {
        return quit_ || std::any_of(jobs_.begin(), jobs_.end(),
                                    [this](auto& job) { return !Held(job.second); });
      });
      if (quit_) return;
      for (auto job = jobs_.begin(); job != jobs_.end();) {
        if (StepJob(job->second)) {
          job = jobs_.erase(job);
        } else {
          ++job;
        }
      }
      changed_.notify_all();
    }
  }

  const std::unique_ptr<Tokenizer> tokenizer_;
  ModelSummary summary_;
  EngineOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Script script_;
  std::map<RequestId, Job> jobs_;
  std::vector<Request> requests_;
  EngineStats stats_;
  RequestId last_id_ = 0;
  bool draining_ = false;
  bool quit_ = false;
  std::thread thread_;
};

}  // namespace firesteel
