#include "net/http_transfer_internal.h"

#include <string>
#include <string_view>

#include "base/check.h"
#include "base/clock.h"

namespace firesteel {
namespace {

size_t OnBody(char* bytes, size_t, size_t size, void* user) {
  const auto* transfer = static_cast<HttpTransfer*>(user);
  // libcurl hands over every chunk of a chunked body by itself; they came together.
  if (*transfer->read_ns == 0) *transfer->read_ns = Clock::Real().NowNs();
  if (transfer->call.on_data) {
    transfer->call.on_data(std::string_view(bytes, size), *transfer->read_ns);
  }
  return size;
}

size_t OnHeader(char* bytes, size_t, size_t size, void* user) {
  auto* transfer = static_cast<HttpTransfer*>(user);
  const std::string_view line(bytes, size);
  if (line == "\r\n" || line == "\n") {
    if (*transfer->read_ns == 0) *transfer->read_ns = Clock::Real().NowNs();
    transfer->info.head_ns = *transfer->read_ns;
  }
  return size;
}

// Called before each sending of the request: libcurl sends again by itself when a connection from
// its pool turns out to be closed.
int OnSending(void* user, char*, char*, int, int) {
  auto* transfer = static_cast<HttpTransfer*>(user);
  if (++transfer->sends > 2) return CURL_PREREQFUNC_ABORT;
  transfer->info.reconnects = transfer->sends - 1;
  return CURL_PREREQFUNC_OK;
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
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS,
                     call.body.c_str());  // borrowed: lives in HttpTransfer
    if (call.method != "POST") curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call.method.c_str());
  } else if (call.method != "GET") {
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call.method.c_str());
  }
}

}  // namespace

HttpFault FaultOf(CURLcode code, const HttpTransfer& transfer) {
  switch (code) {
    case CURLE_OK:
      return HttpFault::kNone;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
      return HttpFault::kConnect;
    case CURLE_OPERATION_TIMEDOUT:
      return transfer.sends == 0 ? HttpFault::kConnectTimeout : HttpFault::kTotalTimeout;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
      return HttpFault::kTls;
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_ABORTED_BY_CALLBACK:
      return HttpFault::kClosed;
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_BAD_CONTENT_ENCODING:
    case CURLE_HTTP2:
      return HttpFault::kProtocol;
    default:
      return HttpFault::kOther;
  }
}

std::unique_ptr<HttpTransfer> MakeTransfer(HttpCall call) {
  auto transfer = std::make_unique<HttpTransfer>();
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
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(transfer->call.connect_timeout_ms));
  if (transfer->call.new_connection) {
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
  }
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  // A proxy from the environment would stand between us and what we measure.
  curl_easy_setopt(easy, CURLOPT_PROXY, "");
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &OnBody);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer.get());
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &OnHeader);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer.get());
  curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, &OnSending);
  curl_easy_setopt(easy, CURLOPT_PREREQDATA, transfer.get());
  curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->error.data());
  return transfer;
}

}  // namespace firesteel
