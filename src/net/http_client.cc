#include "net/http_client.h"

#include <curl/curl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "base/check.h"
#include "base/clock.h"

namespace firesteel {
namespace {

struct Transfer {
  HttpCall call;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  std::array<char, CURL_ERROR_SIZE> error{};

  ~Transfer() {
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
  }
};

size_t OnBody(char* bytes, size_t, size_t size, void* user) {
  const auto* transfer = static_cast<Transfer*>(user);
  if (transfer->call.on_data) {
    transfer->call.on_data(std::string_view(bytes, size), Clock::Real().NowNs());
  }
  return size;
}

void InitLibraryOnce() {
  static std::once_flag once;
  std::call_once(once, [] { FS_CHECK(curl_global_init(CURL_GLOBAL_ALL) == CURLE_OK); });
}

void AppendHeader(const std::string& line, curl_slist** list) {
  curl_slist* longer = curl_slist_append(*list, line.c_str());
  FS_CHECK(longer != nullptr);
  *list = longer;
}

void SetMethod(CURL* easy, const HttpCall& call) {
  if (call.method == "HEAD") {
    curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
  } else if (call.method == "POST" || !call.body.empty()) {
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(call.body.size()));
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, call.body.c_str());  // borrowed: lives in Transfer
    if (call.method != "POST") curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call.method.c_str());
  } else if (call.method != "GET") {
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call.method.c_str());
  }
}

std::unique_ptr<Transfer> MakeTransfer(HttpCall call) {
  auto transfer = std::make_unique<Transfer>();
  transfer->call = std::move(call);
  CURL* easy = transfer->easy = curl_easy_init();
  FS_CHECK(easy != nullptr);
  for (const auto& [name, value] : transfer->call.headers) {
    // libcurl spells an empty value with a semicolon; a colon would remove the header.
    AppendHeader(value.empty() ? name + ";" : name + ": " + value, &transfer->headers);
  }
  // Without this a body above 1 MiB waits up to a second for "100 Continue".
  AppendHeader("Expect:", &transfer->headers);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers);
  curl_easy_setopt(easy, CURLOPT_URL, transfer->call.url.c_str());
  SetMethod(easy, transfer->call);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(transfer->call.timeout_ms));
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  // A proxy from the environment would stand between us and what we measure.
  curl_easy_setopt(easy, CURLOPT_PROXY, "");
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &OnBody);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer.get());
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->error.data());
  return transfer;
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
  std::unordered_map<CURL*, std::unique_ptr<Transfer>> running;
  std::deque<std::unique_ptr<Transfer>> queued;

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
    curl_multi_socket_action(multi, socket, events, &still_running);
    inside = false;
  }

  void Add(std::unique_ptr<Transfer> transfer) {
    CURL* easy = transfer->easy;
    running.emplace(easy, std::move(transfer));
    inside = true;
    const CURLMcode code = curl_multi_add_handle(multi, easy);
    inside = false;
    FS_CHECK(code == CURLM_OK, "curl_multi_add_handle: {}", curl_multi_strerror(code));
  }

  void Finish(CURL* easy, CURLcode code) {
    const auto it = running.find(easy);
    const std::unique_ptr<Transfer> transfer = std::move(it->second);
    running.erase(it);
    curl_multi_remove_handle(multi, easy);
    long status = 0;
    std::string error;
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
      std::unique_ptr<Transfer> transfer = std::move(queued.front());
      queued.pop_front();
      Add(std::move(transfer));
    }
  }

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
  const auto abandon = [now](const Transfer& transfer) {
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

void HttpClient::Start(HttpCall call) {
  if (impl_->closing) return;
  auto transfer = MakeTransfer(std::move(call));
  if (impl_->inside) {
    impl_->queued.push_back(std::move(transfer));
  } else {
    impl_->Add(std::move(transfer));
  }
}

int HttpClient::InFlight() const {
  return static_cast<int>(impl_->running.size() + impl_->queued.size());
}

void HttpClient::Poll(int timeout_ms) {
  impl_->AddQueued();
  int wait_ms = timeout_ms;
  if (impl_->wake_at_ns >= 0) {
    const int64_t left_ns = impl_->wake_at_ns - Clock::Real().NowNs();
    const int64_t left_ms = left_ns <= 0 ? 0 : (left_ns + 999'999) / 1'000'000;
    if (timeout_ms < 0 || left_ms < timeout_ms) wait_ms = static_cast<int>(left_ms);
  }
  std::array<epoll_event, 256> events;
  const int count =
      epoll_wait(impl_->epoll, events.data(), static_cast<int>(events.size()), wait_ms);
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
