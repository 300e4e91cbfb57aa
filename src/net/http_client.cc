#include "net/http_client.h"

#include <curl/curl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <span>
#include <unordered_map>

#include "base/check.h"
#include "base/clock.h"
#include "net/http_transfer_internal.h"

namespace firesteel {
namespace {

// Thousands of streams need more descriptors than the soft limit of most systems.
void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void InitLibraryOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    FS_CHECK(curl_global_init(CURL_GLOBAL_ALL) == CURLE_OK);
    RaiseFileLimit();
  });
}

}  // namespace

// libcurl tells us which sockets to watch (OnSocket) and when to call again (OnTimer); epoll makes
// that independent of the number of streams, which curl_multi_poll is not.
struct HttpClient::Impl {
  CURLM* multi = nullptr;
  int epoll = -1;
  int64_t wake_at_ns = -1;  // when libcurl wants to be called; -1: only on socket events
  bool inside = false;      // libcurl runs: it must not be given new transfers now
  bool closing = false;
  std::unordered_map<CURL*, std::unique_ptr<HttpTransfer>> running;
  std::deque<std::unique_ptr<HttpTransfer>> queued;
  CallId last_id = 0;
  int64_t read_ns = 0;      // see HttpTransfer
  int64_t woken_ns = 0;     // when the last wait for events ended
  int64_t readable_ns = 0;  // see ReadableSinceNs
  int64_t waited_ns = 0;

  static int OnSocket(CURL*, curl_socket_t socket, int what, void* user, void* known) {
    auto* self = static_cast<Impl*>(user);
    if (what == CURL_POLL_REMOVE) {
      // May be closed already; then the kernel has dropped it by itself.
      epoll_ctl(self->epoll, EPOLL_CTL_DEL, socket, nullptr);
      return 0;
    }
    epoll_event event{};
    event.events =
        ((what & CURL_POLL_IN) != 0 ? EPOLLIN : 0U) | ((what & CURL_POLL_OUT) != 0 ? EPOLLOUT : 0U);
    event.data.fd = socket;
    if (epoll_ctl(self->epoll, known != nullptr ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, socket, &event) !=
        0) {
      // A number that was closed and opened again behind our back changes which of the two is
      // right.
      const int other = errno == EEXIST ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
      if (epoll_ctl(self->epoll, other, socket, &event) != 0) return -1;
    }
    curl_multi_assign(self->multi, socket, self);
    return 0;
  }

  static int OnTimer(CURLM*, long timeout_ms, void* user) {
    auto* self = static_cast<Impl*>(user);
    self->wake_at_ns =
        timeout_ms < 0 ? -1 : Clock::Real().NowNs() + int64_t{timeout_ms} * 1'000'000;
    return 0;
  }

  void Action(curl_socket_t socket, int events) {
    int still_running = 0;
    inside = true;
    read_ns = 0;
    curl_multi_socket_action(multi, socket, events, &still_running);
    inside = false;
  }

  void Add(std::unique_ptr<HttpTransfer> transfer) {
    CURL* easy = transfer->easy;
    running.emplace(easy, std::move(transfer));
    inside = true;
    const CURLMcode code = curl_multi_add_handle(multi, easy);
    inside = false;
    FS_CHECK(code == CURLM_OK, "curl_multi_add_handle: {}", curl_multi_strerror(code));
  }

  void Finish(CURL* easy, CURLcode code) {
    const auto it = running.find(easy);
    const std::unique_ptr<HttpTransfer> transfer = std::move(it->second);
    running.erase(it);
    curl_multi_remove_handle(multi, easy);
    long status = 0;
    std::string error;
    HttpCallInfo& info = transfer->info;
    info.fault = FaultOf(code, *transfer);
    long connections = 0;
    curl_off_t connected_us = 0, secured_us = 0;
    curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &connections);
    curl_easy_getinfo(easy, CURLINFO_CONNECT_TIME_T, &connected_us);
    curl_easy_getinfo(easy, CURLINFO_APPCONNECT_TIME_T, &secured_us);
    if (transfer->sends > 0) {
      info.connect_ns = connections > 0 ? std::max(connected_us, secured_us) * 1000 : 0;
    }
    const char* content_type = nullptr;
    curl_easy_getinfo(easy, CURLINFO_CONTENT_TYPE, &content_type);
    if (content_type != nullptr) info.content_type = content_type;
    if (transfer->call.on_info) transfer->call.on_info(info);
    if (code == CURLE_OK) {
      curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    } else {
      const char* detail = transfer->error.data();
      error = transfer->call.method + " " + transfer->call.url + ": " +
              (*detail != '\0' ? detail : curl_easy_strerror(code));
    }
    if (transfer->call.on_done) {
      transfer->call.on_done(static_cast<int>(status), error, Clock::Real().NowNs());
    }
  }

  void FinishAll() {
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
      // The message dies with curl_multi_remove_handle.
      if (message->msg == CURLMSG_DONE) Finish(message->easy_handle, message->data.result);
    }
  }

  void AddQueued() {
    while (!queued.empty()) {
      std::unique_ptr<HttpTransfer> transfer = std::move(queued.front());
      queued.pop_front();
      Add(std::move(transfer));
    }
  }

  // Waits for events, at most until `deadline_ns` or until libcurl's timer.
  int Wait(int64_t deadline_ns, std::span<epoll_event> events);

  bool TimerDue() const { return wake_at_ns >= 0 && Clock::Real().NowNs() >= wake_at_ns; }
};

HttpClient::HttpClient() : impl_(std::make_unique<Impl>()) {
  InitLibraryOnce();
  impl_->epoll = epoll_create1(EPOLL_CLOEXEC);
  FS_CHECK(impl_->epoll >= 0, "epoll_create1: {}", std::strerror(errno));
  impl_->multi = curl_multi_init();
  FS_CHECK(impl_->multi != nullptr);
  curl_multi_setopt(impl_->multi, CURLMOPT_SOCKETFUNCTION, &Impl::OnSocket);
  curl_multi_setopt(impl_->multi, CURLMOPT_SOCKETDATA, impl_.get());
  curl_multi_setopt(impl_->multi, CURLMOPT_TIMERFUNCTION, &Impl::OnTimer);
  curl_multi_setopt(impl_->multi, CURLMOPT_TIMERDATA, impl_.get());
  curl_multi_setopt(impl_->multi, CURLMOPT_MAXCONNECTS, 4096L);
}

HttpClient::~HttpClient() {
  impl_->closing = true;
  auto transfers = std::move(impl_->running);
  impl_->running.clear();
  const int64_t now = Clock::Real().NowNs();
  const auto abandon = [now](const HttpTransfer& transfer) {
    if (transfer.call.on_done) transfer.call.on_done(0, "the client was closed", now);
  };
  for (auto& [easy, transfer] : transfers) {
    curl_multi_remove_handle(impl_->multi, easy);
    abandon(*transfer);
  }
  for (const auto& transfer : impl_->queued) abandon(*transfer);
  transfers.clear();
  impl_->queued.clear();
  curl_multi_cleanup(impl_->multi);
  close(impl_->epoll);
}

HttpClient::CallId HttpClient::Start(HttpCall call) {
  if (impl_->closing) return 0;
  auto transfer = MakeTransfer(std::move(call));
  const CallId id = transfer->id = ++impl_->last_id;
  transfer->read_ns = &impl_->read_ns;
  if (impl_->inside) {
    impl_->queued.push_back(std::move(transfer));
  } else {
    impl_->Add(std::move(transfer));
  }
  return id;
}

void HttpClient::Cancel(CallId id) {
  FS_CHECK(!impl_->inside, "HttpClient::Cancel from a callback");
  std::erase_if(impl_->queued, [id](const auto& transfer) { return transfer->id == id; });
  for (auto it = impl_->running.begin(); it != impl_->running.end(); ++it) {
    if (it->second->id != id) continue;
    curl_multi_remove_handle(impl_->multi, it->first);
    impl_->running.erase(it);
    return;
  }
}

int HttpClient::InFlight() const {
  return static_cast<int>(impl_->running.size() + impl_->queued.size());
}

int64_t HttpClient::ReadableSinceNs() const { return impl_->readable_ns; }
int64_t HttpClient::WaitedNs() const { return impl_->waited_ns; }

void HttpClient::Poll(int timeout_ms) {
  PollUntil(timeout_ms < 0 ? INT64_MAX : Clock::Real().NowNs() + int64_t{timeout_ms} * 1'000'000);
}

int HttpClient::Impl::Wait(int64_t deadline_ns, std::span<epoll_event> events) {
  if (wake_at_ns >= 0) deadline_ns = std::min(deadline_ns, wake_at_ns);
  const int64_t before_ns = woken_ns;
  const int capacity = static_cast<int>(events.size());
  // First without waiting: only this tells what was there before from what came while we waited.
  int count = epoll_wait(epoll, events.data(), capacity, 0);
  const int64_t looked_ns = Clock::Real().NowNs();
  woken_ns = looked_ns;
  readable_ns = before_ns == 0 ? looked_ns : before_ns;
  if (count != 0 || deadline_ns <= looked_ns) return count;
  const int64_t left_ns = deadline_ns - looked_ns;
  const timespec timeout = {.tv_sec = left_ns / 1'000'000'000, .tv_nsec = left_ns % 1'000'000'000};
  count = epoll_pwait2(epoll, events.data(), capacity, &timeout, nullptr);
  if (count < 0 && errno == ENOSYS) {  // kernels before 5.11 wait in milliseconds
    count = epoll_wait(epoll, events.data(), capacity,
                       static_cast<int>(std::min<int64_t>(left_ns / 1'000'000 + 1, 1000)));
  }
  woken_ns = readable_ns = Clock::Real().NowNs();
  waited_ns += woken_ns - looked_ns;
  return count;
}

void HttpClient::PollUntil(int64_t deadline_ns) {
  impl_->AddQueued();
  std::array<epoll_event, 256> events;
  const int count = impl_->Wait(deadline_ns, events);
  for (int i = 0; i < count; ++i) {
    int what = 0;
    if ((events[i].events & EPOLLIN) != 0) what |= CURL_CSELECT_IN;
    if ((events[i].events & EPOLLOUT) != 0) what |= CURL_CSELECT_OUT;
    if ((events[i].events & (EPOLLERR | EPOLLHUP)) != 0) what |= CURL_CSELECT_ERR;
    impl_->Action(events[i].data.fd, what);
  }
  if (impl_->TimerDue()) {
    impl_->wake_at_ns = -1;
    impl_->Action(CURL_SOCKET_TIMEOUT, 0);
  }
  impl_->FinishAll();
  impl_->AddQueued();
}

Result<HttpClient::Response> HttpClient::Fetch(HttpCall call) {
  Response response;
  std::string failure;
  bool done = false;
  call.on_data = [&response](std::string_view bytes, int64_t) { response.body.append(bytes); };
  call.on_done = [&](int status, const std::string& error, int64_t) {
    response.status = status;
    failure = error;
    done = true;
  };
  HttpClient client;
  client.Start(std::move(call));
  while (!done) client.Poll(1000);
  if (response.status == 0) return Unavailable(failure);
  return response;
}

}  // namespace firesteel
