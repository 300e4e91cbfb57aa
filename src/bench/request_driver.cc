#include "bench/request_driver.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"

namespace firesteel {
namespace {

constexpr int64_t kNsPerMs = 1'000'000;
constexpr int64_t kHousekeepingNs = 50 * kNsPerMs;
constexpr int64_t kProgressNs = 200 * kNsPerMs;

int64_t Now() { return Clock::Real().NowNs(); }

class Driver {
 public:
  Driver(const DriverOptions& options, std::vector<std::string> bodies,
         std::vector<RequestRecord> records, const LiveProgress& progress)
      : options_(options),
        progress_(progress),
        bodies_(std::move(bodies)),
        records_(std::move(records)),
        calls_(bodies_.size()) {
    // Before the first request: nothing is to be made while times are taken.
    for (size_t i = 0; i < bodies_.size(); ++i) {
      records_[i].index = i;
      streams_.push_back(std::make_unique<CompletionStream>(&records_[i]));
    }
  }

  ~Driver() { abandoned_ = true; }  // the client ends what is in flight, and tells us

  Result<DriverResult> Run(const std::atomic<bool>* stop) {
    start_ns_ = Now();
    monitor_ = std::make_unique<ClientMonitor>(start_ns_);
    free_since_.assign(FreeSlots(), start_ns_);
    const int64_t waited_before_ns = client_.WaitedNs();
    int64_t next_check_ns = start_ns_ + kHousekeepingNs;
    while (finished_ < Wanted()) {
      if (stop != nullptr && *stop) {
        if (!options_.stop_gracefully) return Cancelled("the benchmark was interrupted");
        Interrupt();
        break;
      }
      StartDue();
      client_.PollUntil(NextWake(next_check_ns));
      const int64_t now = Now();
      monitor_->OnTurn(now);
      if (now >= next_check_ns) {
        CheckTimeouts(now);
        next_check_ns = now + kHousekeepingNs;
      }
      ShowProgress(now, false);
    }
    const int64_t end_ns = Now();
    DriverResult result;
    int64_t events = 0;
    for (size_t i = 0; i < next_; ++i) events += streams_[i]->events();
    result.client = monitor_->Finish(end_ns, client_.WaitedNs() - waited_before_ns, events);
    result.client_duration_s = SecondsFromNs(end_ns - start_ns_);
    result.interrupted = interrupted_;
    ShowProgress(end_ns, true);
    records_.resize(next_);
    result.records = std::move(records_);
    return result;
  }

 private:
  bool Closed() const { return options_.arrivals_ns.empty(); }
  size_t FreeSlots() const {
    if (options_.max_concurrency == 0) return Closed() ? bodies_.size() : 0;
    return Closed() ? std::min(options_.max_concurrency, bodies_.size()) : 0;
  }
  // Requests that will have been sent in the end.
  size_t Wanted() const { return sending_over_ ? next_ : bodies_.size(); }
  bool HasSlot() const {
    return options_.max_concurrency == 0 || in_flight_.size() < options_.max_concurrency;
  }

  void StartDue() {
    if (options_.duration_ns > 0 && Now() - start_ns_ >= options_.duration_ns) {
      sending_over_ = true;
    }
    if (Closed()) {
      while (!sending_over_ && next_ < bodies_.size() && !free_since_.empty()) {
        const int64_t since = free_since_.back();
        free_since_.pop_back();
        Start(since);
      }
      return;
    }
    while (!sending_over_ && next_ < bodies_.size() && HasSlot() && DueNs(next_) <= Now()) {
      Start(DueNs(next_));
    }
  }

  int64_t DueNs(size_t i) const { return start_ns_ + options_.arrivals_ns[i]; }

  int64_t NextWake(int64_t next_check_ns) const {
    int64_t wake = std::min(monitor_->next_tick_ns(), next_check_ns);
    if (!Closed() && !sending_over_ && next_ < bodies_.size() && HasSlot()) {
      wake = std::min(wake, DueNs(next_));
    }
    return wake;
  }

  void Start(int64_t sched_ns) {
    const size_t i = next_++;
    HttpCall call;
    call.method = "POST";
    call.url = options_.url;
    call.headers = options_.headers;
    call.body = std::move(bodies_[i]);
    call.timeout_ms = options_.timeouts.total_ms;
    call.connect_timeout_ms = options_.timeouts.connect_ms;
    call.new_connection = options_.new_connections;
    call.on_data = [this, i](std::string_view bytes, int64_t read_ns) {
      const int64_t events = streams_[i]->events();
      const int32_t tokens = streams_[i]->live_tokens();
      streams_[i]->OnBytes(bytes, read_ns);
      output_tokens_ += streams_[i]->live_tokens() - tokens;
      if (streams_[i]->events() != events) monitor_->OnRead(client_.ReadableSinceNs(), Now());
    };
    call.on_info = [this, i](const HttpCallInfo& info) { streams_[i]->OnInfo(info); };
    call.on_done = [this, i](int status, const std::string& error, int64_t now_ns) {
      if (abandoned_) return;
      streams_[i]->OnDone(status, error, now_ns);
      Ended(i);
      StartDue();
    };
    records_[i].sched_ns = sched_ns;
    in_flight_.push_back(i);
    records_[i].send_ns = Now();
    calls_[i] = client_.Start(std::move(call));
  }

  void Ended(size_t i) {
    in_flight_.erase(std::find(in_flight_.begin(), in_flight_.end(), i));
    ++finished_;
    if (!records_[i].ok()) ++failed_;
    if (const auto ttft = records_[i].Ttft()) {
      ttft_sum_ += *ttft;
      ++ttft_count_;
    }
    if (Closed()) free_since_.push_back(Now());
    finished_since_shown_ = true;
  }

  void GiveUp(size_t i, Failure failure, std::string message, int64_t now_ns) {
    client_.Cancel(calls_[i]);
    streams_[i]->GiveUp(failure, std::move(message), now_ns);
    Ended(i);
  }

  void CheckTimeouts(int64_t now_ns) {
    const DriverTimeouts& limits = options_.timeouts;
    const std::vector<size_t> in_flight = in_flight_;
    for (const size_t i : in_flight) {
      const int64_t last_ns = streams_[i]->last_token_ns();
      const int64_t quiet_ms = (now_ns - (last_ns == 0 ? records_[i].send_ns : last_ns)) / kNsPerMs;
      if (last_ns == 0 && limits.first_ms > 0 && quiet_ms >= limits.first_ms) {
        GiveUp(i, Failure::kTimeoutFirst, fmt::format("no token within {} ms", limits.first_ms),
               now_ns);
      } else if (last_ns != 0 && limits.idle_ms > 0 && quiet_ms >= limits.idle_ms) {
        GiveUp(i, Failure::kTimeoutIdle,
               fmt::format("nothing for {} ms after the last token", limits.idle_ms), now_ns);
      }
    }
  }

  void Interrupt() {
    interrupted_ = true;
    const std::vector<size_t> in_flight = in_flight_;
    for (const size_t i : in_flight) {
      GiveUp(i, Failure::kCancelled, "the benchmark was interrupted", Now());
    }
  }

  void ShowProgress(int64_t now_ns, bool last) {
    if (!progress_) return;
    if (!last && !finished_since_shown_ && now_ns - shown_ns_ < kProgressNs) return;
    LiveFigures live;
    live.finished = finished_;
    live.total = bodies_.size();
    live.failed = failed_;
    live.in_flight = in_flight_.size();
    live.output_tokens = output_tokens_;
    live.elapsed_s = SecondsFromNs(now_ns - start_ns_);
    if (now_ns - rate_since_ns_ >= 1000 * kNsPerMs) {
      const int64_t from_ns = rate_since_ns_ == 0 ? start_ns_ : rate_since_ns_;
      rate_ = static_cast<double>(output_tokens_ - rate_tokens_) /
              SecondsFromNs(std::max<int64_t>(now_ns - from_ns, 1));
      rate_since_ns_ = now_ns;
      rate_tokens_ = output_tokens_;
    }
    live.output_tokens_per_s = rate_;
    live.mean_ttft_s = ttft_count_ == 0 ? 0 : ttft_sum_ / static_cast<double>(ttft_count_);
    shown_ns_ = now_ns;
    finished_since_shown_ = false;
    progress_(live);
  }

  const DriverOptions& options_;
  const LiveProgress& progress_;
  std::vector<std::string> bodies_;
  std::vector<RequestRecord> records_;
  std::vector<std::unique_ptr<CompletionStream>> streams_;
  std::vector<HttpClient::CallId> calls_;
  std::unique_ptr<ClientMonitor> monitor_;
  std::vector<size_t> in_flight_;
  std::vector<int64_t> free_since_;  // of a closed loop: its free slots, each with when it got free
  size_t next_ = 0;
  size_t finished_ = 0;
  size_t failed_ = 0;
  bool sending_over_ = false;
  bool interrupted_ = false;
  bool abandoned_ = false;
  bool finished_since_shown_ = false;
  int64_t start_ns_ = 0;
  int64_t shown_ns_ = 0;
  int64_t output_tokens_ = 0;
  int64_t rate_since_ns_ = 0;
  int64_t rate_tokens_ = 0;
  double rate_ = 0;
  double ttft_sum_ = 0;
  size_t ttft_count_ = 0;
  // Last, so that it goes first: its callbacks use everything above.
  HttpClient client_;
};

}  // namespace

Result<DriverResult> DriveRequests(const DriverOptions& options, std::vector<std::string> bodies,
                                   std::vector<RequestRecord> records, const LiveProgress& progress,
                                   const std::atomic<bool>* stop) {
  return Driver(options, std::move(bodies), std::move(records), progress).Run(stop);
}

}  // namespace firesteel
