#include "net/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <string>
#include <thread>

#include "net/http_client.h"
#include "net/raw_client_internal.h"

namespace firesteel {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr auto kLong = std::chrono::seconds(20);

// /echo answers at once with method, query and body; every other path is handed to the test, which
// answers when it likes.
class HttpServerTest : public ::testing::Test {
 protected:
  struct Waiting {
    HttpRequest request;
    std::shared_ptr<ResponseWriter> writer;
    std::shared_ptr<std::promise<void>> disconnected = std::make_shared<std::promise<void>>();
  };

  void Listen(HttpServerOptions options = {}) {
    options.error_body = [](int status, const std::string& message) {
      return "error " + std::to_string(status) + ": " + message;
    };
    auto server = HttpServer::Listen(
        options, [this](HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
          if (request.path == "/echo") {
            writer->Respond(200, {{"X-Peer", request.peer}},
                            request.method + " " + request.query + " " + request.body);
            return;
          }
          if (request.path == "/drop") return;
          Waiting waiting{std::move(request), std::move(writer)};
          waiting.writer->OnDisconnect(
              [disconnected = waiting.disconnected] { disconnected->set_value(); });
          const std::lock_guard lock(mutex_);
          waiting_.push_back(std::move(waiting));
          arrived_.notify_all();
        });
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = *std::move(server);
  }

  Waiting NextRequest() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, kLong, [this] { return !waiting_.empty(); })) {
      ADD_FAILURE() << "no request arrived";
      return {};
    }
    Waiting waiting = std::move(waiting_.front());
    waiting_.pop_front();
    return waiting;
  }

  static bool Fires(const Waiting& waiting) {
    return waiting.disconnected->get_future().wait_for(kLong) == std::future_status::ready;
  }

  // The status line and body of the answer to these bytes, the connection being closed by the
  // server afterwards.
  std::string Answer(std::string_view bytes) {
    RawClient client(server_->Port());
    client.Send(bytes);
    return client.ReadToEnd();
  }

  std::string Url(const std::string& path) const {
    return "http://127.0.0.1:" + std::to_string(server_->Port()) + path;
  }

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Waiting> waiting_;
  std::unique_ptr<HttpServer> server_;
};

constexpr std::string_view kGetEcho = "GET /echo?a=1 HTTP/1.1\r\nHost: x\r\n\r\n";

TEST_F(HttpServerTest, AnswersAndKeepsTheConnection) {
  Listen();
  RawClient client(server_->Port());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.Send(kGetEcho));
    const std::string response = client.ReadResponse();
    EXPECT_THAT(response, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(response, HasSubstr("X-Peer: 127.0.0.1:"));
    EXPECT_THAT(response, HasSubstr("Connection: keep-alive\r\n"));
    EXPECT_THAT(response, EndsWith("\r\n\r\nGET a=1 "));
  }
}

TEST_F(HttpServerTest, AnswersPipelinedRequestsInOrder) {
  Listen();
  RawClient client(server_->Port());
  ASSERT_TRUE(
      client.Send("GET /echo?1 HTTP/1.1\r\nHost: x\r\n\r\nGET /slow HTTP/1.1\r\nHost: x\r\n\r\n"
                  "POST /echo?3 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi"));
  EXPECT_THAT(client.ReadResponse(), EndsWith("GET 1 "));
  NextRequest().writer->Respond(200, {}, "slow");
  EXPECT_THAT(client.ReadResponse(), EndsWith("\r\n\r\nslow"));
  EXPECT_THAT(client.ReadResponse(), EndsWith("POST 3 hi"));
}

TEST_F(HttpServerTest, SpeaksHttp10) {
  Listen();
  const std::string once = Answer("GET /echo HTTP/1.0\r\n\r\n");
  EXPECT_THAT(once, HasSubstr("Connection: close\r\n"));
  EXPECT_THAT(once, EndsWith("GET  "));

  RawClient client(server_->Port());
  client.Send("GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_THAT(client.ReadResponse(), HasSubstr("Connection: keep-alive\r\n"));
  client.Send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const Waiting stream = NextRequest();
  stream.writer->Start(200, {});
  stream.writer->Write("one");
  stream.writer->Write("two");
  stream.writer->End();
  const std::string response = client.ReadToEnd();
  EXPECT_THAT(response, Not(HasSubstr("chunked")));
  EXPECT_THAT(response, EndsWith("\r\n\r\nonetwo"));
}

TEST_F(HttpServerTest, AnswersHeadWithoutABody) {
  Listen();
  const std::string response =
      Answer("HEAD /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(response, HasSubstr("Content-Length: 6\r\n"));
  EXPECT_THAT(response, EndsWith("\r\n\r\n"));
}

TEST_F(HttpServerTest, ReadsChunkedBodiesAndContinues) {
  Listen();
  RawClient client(server_->Port());
  client.Send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: t\r\n\r\n");
  EXPECT_THAT(client.ReadResponse(), EndsWith("POST  abcde"));

  client.Send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.ReadUntil("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.Send("hello");
  EXPECT_THAT(client.ReadResponse(), EndsWith("POST  hello"));
}

TEST_F(HttpServerTest, AcceptsAbsoluteTargets) {
  Listen();
  EXPECT_THAT(Answer("GET http://host:1/echo?q HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
              EndsWith("GET q "));
}

TEST_F(HttpServerTest, RefusesWhatItCannotRead) {
  Listen({.max_header_bytes = 1000, .max_body_bytes = 10});
  const struct {
    std::string bytes, status, message;
  } kCases[] = {
      {"nonsense\r\n\r\n", "400 Bad Request", "header is malformed"},
      {"GET\r\n\r\n", "400 Bad Request", "header is malformed"},
      {"\x16\x03\x01\x02\x01\x01\xfc\x03\x03 a TLS hello\r\n\r\n", "400 Bad Request",
       "header is malformed"},
      {"GET /echo HTTP/1.1\r\nHost : x\r\n\r\n", "400 Bad Request", "header is malformed"},
      {"GET /echo HTTP/1.1\r\nHost\r\n\r\n", "400 Bad Request", "header is malformed"},
      {"GET /echo HTTP/1.1\r\n\r\n", "400 Bad Request", "exactly one Host header, found 0"},
      {"GET /echo HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400 Bad Request",
       "exactly one Host header, found 2"},
      {"GET /echo HTTP/2.0\r\nHost: x\r\n\r\n", "505 HTTP Version Not Supported",
       "HTTP/1.1 or HTTP/1.0"},
      {"BREW /echo HTTP/1.1\r\nHost: x\r\n\r\n", "405 Method Not Allowed", "method BREW"},
      {"TRACE /echo HTTP/1.1\r\nHost: x\r\n\r\n", "405 Method Not Allowed", "method TRACE"},
      {"GET /echo HTTP/1.1\r\nHost: x\r\nLong: " + std::string(2000, 'a') + "\r\n\r\n",
       "431 Request Header Fields Too Large", "longer than 1000 bytes"},
      {"GET /" + std::string(3000, 'a'), "431 Request Header Fields Too Large",
       "longer than 1000 bytes"},
      {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n", "413 Content Too Large",
       "longer than 10 bytes"},
      {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n",
       "413 Content Too Large", "longer than 10 bytes"},
      {"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n",
       "413 Content Too Large", "longer than 10 bytes"},
      {"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
       "400 Bad Request", "body is malformed"},
      {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", "400 Bad Request",
       "header is malformed"},
      {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
       "400 Bad Request", "header is malformed"},
      {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
       "400 Bad Request", "header is malformed"},
      {"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", "501 Not Implemented",
       "expected chunked"},
      {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\na",
       "415 Unsupported Media Type", "'gzip', expected none"},
      {"POST /echo HTTP/1.1\r\nHost: x\r\nExpect: gold\r\nContent-Length: 1\r\n\r\na",
       "417 Expectation Failed", "'gold', expected 100-continue"},
  };
  for (const auto& test : kCases) {
    const std::string response = Answer(test.bytes);
    EXPECT_THAT(response, StartsWith("HTTP/1.1 " + test.status + "\r\n")) << test.bytes;
    EXPECT_THAT(response, HasSubstr("Connection: close\r\n")) << test.bytes;
    EXPECT_THAT(response, HasSubstr("\r\n\r\nerror " + test.status.substr(0, 3) + ": "))
        << test.bytes;
    EXPECT_THAT(response, HasSubstr(test.message)) << test.bytes;
  }
}

TEST_F(HttpServerTest, TheErrorReachesAClientThatIsStillSending) {
  Listen({.max_body_bytes = 1000});
  RawClient client(server_->Port());
  client.Send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n");
  client.Send(std::string(8'000'000, 'x'));
  EXPECT_THAT(client.ReadToEnd(), StartsWith("HTTP/1.1 413 "));
}

// Neither counts as body, so only the buffer's own limit ends them.
TEST_F(HttpServerTest, RefusesEndlessChunkHeadersAndTrailers) {
  Listen();
  const std::string head =
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
  const std::string long_line(300'000, 'a');
  for (const std::string& body : {"1;" + long_line, "0\r\nTrailer: " + long_line}) {
    const std::string response = Answer(head + body);
    EXPECT_THAT(response, StartsWith("HTTP/1.1 400 ")) << body.substr(0, 20);
    EXPECT_THAT(response, HasSubstr("a chunk header or trailers of more than 131072 bytes"));
  }
  const std::string fits(10'000, 'a');
  EXPECT_THAT(Answer(head + "2;" + fits + "\r\nhi\r\n0\r\nTrailer: " + fits + "\r\n\r\n"),
              EndsWith("POST  hi"));
}

TEST_F(HttpServerTest, TimesOutSlowHeadersAndBodies) {
  Listen({.header_timeout_ms = 50, .body_timeout_ms = 60, .keep_alive_timeout_ms = 50});
  EXPECT_THAT(Answer("GET /echo HTTP/1.1\r\nHos"),
              HasSubstr("error 408: the request's header was not complete after 50 ms"));
  EXPECT_THAT(Answer("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhel"),
              HasSubstr("error 408: the request's body was not complete after 60 ms"));
  EXPECT_EQ(Answer(""), "");                            // nothing begun: closed without a word
  EXPECT_THAT(Answer(kGetEcho), EndsWith("GET a=1 "));  // kept alive, then closed

  // One byte at a time does not renew the limit.
  RawClient client(server_->Port());
  client.Send("GET /echo HTTP/1.1\r\n");
  while (client.Send("a")) std::this_thread::yield();
  SUCCEED();
}

TEST_F(HttpServerTest, NoticesThatTheClientIsGoneWhileItWaits) {
  Listen();
  RawClient client(server_->Port());
  client.Send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
  const Waiting waiting = NextRequest();
  client.Close();
  EXPECT_TRUE(Fires(waiting));
  waiting.writer->Respond(200, {}, "late");  // ignored

  // A callback that comes late is called at once.
  bool called = false;
  waiting.writer->OnDisconnect([&] { called = true; });
  EXPECT_TRUE(called);
}

TEST_F(HttpServerTest, NoticesThatTheClientIsGoneDuringAStream) {
  Listen();
  RawClient client(server_->Port());
  client.Send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  const Waiting stream = NextRequest();
  stream.writer->Start(200, {});
  stream.writer->Write("first");
  client.ReadUntil("first");
  client.Close();
  EXPECT_TRUE(Fires(stream));
}

TEST_F(HttpServerTest, AHalfClosedClientGetsWhatIsReadyAndNoMore) {
  Listen();
  {
    RawClient client(server_->Port());
    client.Send(kGetEcho);
    client.HalfClose();
    EXPECT_THAT(client.ReadToEnd(), EndsWith("GET a=1 "));
  }
  {
    RawClient client(server_->Port());
    client.Send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
    client.HalfClose();
    EXPECT_TRUE(Fires(NextRequest()));
    EXPECT_EQ(client.ReadToEnd(), "");
  }
  {
    RawClient client(server_->Port());
    client.Send("GET /ec");
    client.HalfClose();
    EXPECT_EQ(client.ReadToEnd(), "");
  }
}

TEST_F(HttpServerTest, ClosesAClientThatStopsReading) {
  Listen({.stream_idle_timeout_ms = 100, .max_buffered_bytes = int64_t{1} << 40});
  RawClient client(server_->Port(), /*receive_buffer_bytes=*/4096);
  client.Send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  const Waiting stream = NextRequest();
  stream.writer->Start(200, {});
  stream.writer->Write(
      std::string(32 << 20, 'x'));  // returns at once, far more than the kernel buffers
  EXPECT_TRUE(Fires(stream));
}

TEST_F(HttpServerTest, ClosesAClientWhoseBufferIsFull) {
  Listen({.max_buffered_bytes = 1 << 20});
  RawClient client(server_->Port(), /*receive_buffer_bytes=*/4096);
  client.Send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  const Waiting stream = NextRequest();
  stream.writer->Start(200, {});
  auto gone = stream.disconnected->get_future();
  int writes = 0;
  while (gone.wait_for(std::chrono::seconds(0)) != std::future_status::ready && writes < 100'000) {
    stream.writer->Write(std::string(64 << 10, 'x'));
    ++writes;
  }
  EXPECT_EQ(gone.wait_for(kLong), std::future_status::ready);
}

TEST_F(HttpServerTest, ASlowReaderGetsALargeBodyWhole) {
  Listen();
  RawClient client(server_->Port(), /*receive_buffer_bytes=*/4096);
  client.Send("GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  NextRequest().writer->Respond(200, {}, std::string(3 << 20, 'x') + "end");
  const std::string response = client.ReadToEnd();
  EXPECT_THAT(response, HasSubstr("Content-Length: 3145731\r\n"));
  EXPECT_TRUE(response.ends_with("xend"));
  EXPECT_GT(response.size(), 3145731u);
}

TEST_F(HttpServerTest, AnAbandonedRequestIsAnswered) {
  Listen();
  EXPECT_THAT(Answer("GET /drop HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
              HasSubstr("error 500: the request was dropped without an answer"));

  RawClient client(server_->Port());
  client.Send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  Waiting stream = NextRequest();
  stream.writer->Start(200, {});
  stream.writer->Write("first");
  stream.writer.reset();
  EXPECT_THAT(client.ReadToEnd(), Not(EndsWith("0\r\n\r\n")));  // broken off, not ended
}

TEST_F(HttpServerTest, RefusesConnectionsAboveTheLimit) {
  Listen({.max_connections = 2});
  RawClient first(server_->Port()), second(server_->Port());
  first.Send(kGetEcho);
  first.ReadResponse();
  second.Send(kGetEcho);
  second.ReadResponse();
  EXPECT_THAT(Answer(""), HasSubstr("error 503: all 2 connections are in use"));
  first.Send(kGetEcho);
  EXPECT_THAT(first.ReadResponse(), EndsWith("GET a=1 "));
}

TEST_F(HttpServerTest, StopLetsResponsesEnd) {
  Listen();
  RawClient idle(server_->Port()), busy(server_->Port());
  idle.Send(kGetEcho);
  idle.ReadResponse();
  busy.Send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  const Waiting stream = NextRequest();
  stream.writer->Start(200, {});
  stream.writer->Write("one");
  std::thread stopper([&] { server_->Stop(20'000); });
  EXPECT_EQ(idle.ReadToEnd(), "");  // closed, and so is the listener
  EXPECT_FALSE(RawClient(server_->Port()).connected());
  stream.writer->Write("two");
  stream.writer->End();
  EXPECT_THAT(busy.ReadToEnd(), EndsWith("3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"));
  stopper.join();
}

TEST_F(HttpServerTest, StopNowBreaksOff) {
  Listen();
  RawClient busy(server_->Port());
  busy.Send("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");
  const Waiting stream = NextRequest();
  std::thread stopper([&] { server_->Stop(1'000'000); });
  server_->Stop(0);
  stopper.join();
  EXPECT_TRUE(Fires(stream));
  server_.reset();
  stream.writer->Respond(200, {}, "after the server");  // ignored
}

TEST_F(HttpServerTest, SaysWhyItCannotListen) {
  Listen();
  const auto second = HttpServer::Listen({.port = server_->Port()}, nullptr);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(second.status().message(),
            "http: cannot listen on 127.0.0.1:" + std::to_string(server_->Port()) +
                ": Address already in use");
  EXPECT_EQ(HttpServer::Listen({.port = 70000}, nullptr).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(HttpServerTest, Serves256StreamsAtOnce) {
  constexpr int kStreams = 256, kEvents = 40;
  Listen();
  std::thread producer([this] {
    std::vector<Waiting> streams;
    for (int i = 0; i < kStreams; ++i) {
      streams.push_back(NextRequest());
      streams.back().writer->Start(200, {});
    }
    for (int event = 0; event < kEvents; ++event) {
      for (const Waiting& stream : streams) {
        stream.writer->Write(stream.request.query + ":" + std::to_string(event) + ";");
      }
    }
    for (const Waiting& stream : streams) stream.writer->End();
  });
  HttpClient client;
  std::vector<std::string> bodies(kStreams);
  int good = 0;
  for (int i = 0; i < kStreams; ++i) {
    HttpCall call;
    call.url = Url("/stream?" + std::to_string(i));
    call.on_data = [&bodies, i](std::string_view bytes, int64_t) { bodies[i].append(bytes); };
    call.on_done = [&good](int status, const std::string& error, int64_t) {
      EXPECT_EQ(status, 200) << error;
      good += status == 200;
    };
    client.Start(std::move(call));
  }
  while (client.InFlight() > 0) client.Poll(1000);
  producer.join();
  EXPECT_EQ(good, kStreams);
  for (int i = 0; i < kStreams; ++i) {
    std::string expected;
    for (int event = 0; event < kEvents; ++event) {
      expected += std::to_string(i) + ":" + std::to_string(event) + ";";
    }
    EXPECT_EQ(bodies[i], expected);
  }
}

}  // namespace
}  // namespace firesteel
