// One call as libcurl carries it out. For http_client.cc alone.
#pragma once

#include <curl/curl.h>

#include <array>
#include <cstdint>
#include <memory>

#include "net/http_client.h"

namespace firesteel {

struct HttpTransfer {
  HttpCall call;
  HttpClient::CallId id = 0;
  HttpCallInfo info;
  int32_t sends = 0;
  int64_t* read_ns = nullptr;  // of the client: the time of the read at work, 0 before its bytes
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  std::array<char, CURL_ERROR_SIZE> error{};

  ~HttpTransfer() {
    curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
  }
};

std::unique_ptr<HttpTransfer> MakeTransfer(HttpCall call);
HttpFault FaultOf(CURLcode code, const HttpTransfer& transfer);

}  // namespace firesteel
