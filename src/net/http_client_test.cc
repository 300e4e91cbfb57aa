#include "net/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/clock.h"
#include "net/http_server.h"

namespace firesteel {
namespace {

using ::testing::HasSubstr;

class HttpClientTest : public ::testing::Test {
 protected:
  HttpClientTest() {
    auto server =
        HttpServer::Listen({}, [this](HttpRequest request, std::shared_ptr<ResponseWriter> writer) {
          if (request.path == "/hang") {
            hanging_.push_back(std::move(writer));
            return;
          }
          if (request.path == "/break") {
            writer->Start(200, {});
            writer->Write("half");
            return;  // the last reference goes
          }
          std::string seen = request.method + " " + std::string(request.Header("x-test")) + "|" +
                             std::string(request.Header("expect")) + "|" + request.body;
          writer->Respond(request.path == "/teapot" ? 418 : 200, {}, std::move(seen));
        });
    EXPECT_TRUE(server.ok()) << server.status().message();
    server_ = *std::move(server);
  }

  std::string Url(const std::string& path) const {
    return "http://127.0.0.1:" + std::to_string(server_->Port()) + path;
  }

  std::vector<std::shared_ptr<ResponseWriter>> hanging_;  // io thread
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpClientTest, SendsMethodHeadersAndBody) {
  const auto get = HttpClient::Fetch({.url = Url("/x"), .headers = {{"X-Test", "a b"}}});
  ASSERT_TRUE(get.ok()) << get.status().message();
  EXPECT_EQ(get->status, 200);
  EXPECT_EQ(get->body, "GET a b||");

  // Large enough that libcurl would ask for 100-continue if we let it.
  const std::string body(3 << 20, 'b');
  const auto post = HttpClient::Fetch(
      {.method = "POST", .url = Url("/teapot"), .headers = {{"X-Test", ""}}, .body = body});
  ASSERT_TRUE(post.ok()) << post.status().message();
  EXPECT_EQ(post->status, 418);
  EXPECT_EQ(post->body, "POST ||" + body);

  EXPECT_EQ(HttpClient::Fetch({.method = "DELETE", .url = Url("/x")})->body, "DELETE ||");
  EXPECT_EQ(HttpClient::Fetch({.method = "HEAD", .url = Url("/x")})->body, "");
}

TEST_F(HttpClientTest, SaysWhyNoResponseCame) {
  const int32_t port = server_->Port();
  const auto broken = HttpClient::Fetch({.url = Url("/break")});
  EXPECT_EQ(broken.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(broken.status().message(),
              HasSubstr("GET http://127.0.0.1:" + std::to_string(port) + "/break: "));

  const auto slow = HttpClient::Fetch({.url = Url("/hang"), .timeout_ms = 50});
  EXPECT_THAT(slow.status().message(), HasSubstr("timed out"));

  server_.reset();
  const auto refused =
      HttpClient::Fetch({.url = "http://127.0.0.1:" + std::to_string(port) + "/x"});
  EXPECT_THAT(refused.status().message(), HasSubstr("connect"));

  EXPECT_FALSE(HttpClient::Fetch({.url = "file:///etc/passwd"}).ok());
  EXPECT_FALSE(HttpClient::Fetch({.url = ""}).ok());
}

TEST_F(HttpClientTest, StartsMoreFromWithinBothCallbacks) {
  HttpClient client;
  int done = 0;
  int64_t data_ns = 0;
  const auto count = [&](int status, const std::string& error, int64_t) {
    EXPECT_EQ(status, 200) << error;
    ++done;
  };
  HttpCall first{.url = Url("/x")};
  first.on_data = [&](std::string_view, int64_t now_ns) {
    data_ns = now_ns;
    client.Start({.url = Url("/x"), .on_done = count});
  };
  first.on_done = [&](int status, const std::string& error, int64_t now_ns) {
    count(status, error, now_ns);
    EXPECT_GE(now_ns, data_ns);
    client.Start({.url = Url("/x"), .on_done = count});
  };
  const int64_t before_ns = Clock::Real().NowNs();
  client.Start(std::move(first));
  EXPECT_EQ(client.InFlight(), 1);
  while (client.InFlight() > 0) client.Poll(1000);
  EXPECT_EQ(done, 3);
  EXPECT_GE(data_ns, before_ns);
}

TEST_F(HttpClientTest, EndsWhatIsInFlightWhenDestroyed) {
  int ended = 0;
  {
    HttpClient client;
    for (int i = 0; i < 3; ++i) {
      client.Start(
          {.url = Url("/hang"), .on_done = [&](int status, const std::string& error, int64_t) {
             EXPECT_EQ(status, 0);
             EXPECT_FALSE(error.empty());
             ++ended;
           }});
    }
    client.Poll(10);
  }
  EXPECT_EQ(ended, 3);
}

TEST_F(HttpClientTest, KnowsWhatTheConnectionDid) {
  HttpClient client;
  std::vector<HttpCallInfo> infos;
  int done = 0;
  for (int i = 0; i < 2; ++i) {
    HttpCall call;
    call.url = Url("/");
    call.on_info = [&](const HttpCallInfo& info) { infos.push_back(info); };
    call.on_done = [&](int status, const std::string&, int64_t) {
      EXPECT_EQ(status, 200);
      ++done;
    };
    const int64_t before = Clock::Real().NowNs();
    client.Start(std::move(call));
    while (done == i) client.PollUntil(Clock::Real().NowNs() + 1'000'000'000);
    ASSERT_TRUE(infos.back().head_ns.has_value());
    EXPECT_GE(*infos.back().head_ns, before);
    EXPECT_LE(client.ReadableSinceNs(), Clock::Real().NowNs());
  }
  EXPECT_GT(*infos[0].connect_ns, 0);
  EXPECT_EQ(infos[1].connect_ns, 0);  // the same connection
  EXPECT_EQ(infos[1].reconnects, 0);
  EXPECT_GT(client.WaitedNs(), 0);
}

TEST_F(HttpClientTest, EachCallOnAConnectionOfItsOwn) {
  HttpClient client;
  int done = 0;
  for (int i = 0; i < 2; ++i) {
    HttpCall call;
    call.url = Url("/");
    call.new_connection = true;
    call.on_info = [](const HttpCallInfo& info) { EXPECT_GT(*info.connect_ns, 0); };
    call.on_done = [&](int, const std::string&, int64_t) { ++done; };
    client.Start(std::move(call));
    while (done == i) client.Poll(1000);
  }
}

TEST_F(HttpClientTest, ACancelledCallIsSilent) {
  HttpClient client;
  bool heard = false;
  HttpCall call;
  call.url = Url("/hang");
  call.on_done = [&](int, const std::string&, int64_t) { heard = true; };
  const HttpClient::CallId id = client.Start(std::move(call));
  client.Poll(20);
  client.Cancel(id);
  EXPECT_EQ(client.InFlight(), 0);
  client.Cancel(id);
  client.Poll(20);
  EXPECT_FALSE(heard);
}

TEST_F(HttpClientTest, FaultsHaveKinds) {
  const auto fault_of = [](HttpCall call) {
    HttpFault fault = HttpFault::kNone;
    bool done = false;
    call.on_info = [&](const HttpCallInfo& info) { fault = info.fault; };
    call.on_done = [&](int, const std::string&, int64_t) { done = true; };
    HttpClient client;
    client.Start(std::move(call));
    while (!done) client.Poll(1000);
    return fault;
  };
  HttpCall refused;
  refused.url = "http://127.0.0.1:1/";
  EXPECT_EQ(fault_of(refused), HttpFault::kConnect);
  HttpCall slow;
  slow.url = Url("/hang");
  slow.timeout_ms = 50;
  EXPECT_EQ(fault_of(slow), HttpFault::kTotalTimeout);
  HttpCall broken;
  broken.url = Url("/break");
  EXPECT_EQ(fault_of(broken), HttpFault::kClosed);
  HttpCall good;
  good.url = Url("/");
  EXPECT_EQ(fault_of(good), HttpFault::kNone);
}

}  // namespace
}  // namespace firesteel
