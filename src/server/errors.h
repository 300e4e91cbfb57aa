// Errors as OpenAI's clients expect them: an HTTP status and {"error": {"message", "type", "param",
// "code"}}.
#pragma once

#include <string>

#include "firesteel/status.h"
#include "net/http_server.h"

namespace firesteel {

struct ApiError {
  int status = 0;       // HTTP; 0: no error
  std::string message;  // one sentence: what, expected, found
  std::string param;    // the field of the request; "": null
  std::string code;     // for programs, "model_not_found" say; "": null
};

// kInvalidArgument and kUnsupported 400, kNotFound 404, kResourceExhausted 429, kUnavailable and
// kCancelled 503, others 500.
ApiError ErrorFromStatus(const Status& status, std::string param = "");

std::string ErrorBody(const ApiError& error);
// With what belongs to the status: Retry-After to 429, WWW-Authenticate to 401.
void SendError(ResponseWriter& writer, const ApiError& error, HttpHeaders headers = {});

}  // namespace firesteel
