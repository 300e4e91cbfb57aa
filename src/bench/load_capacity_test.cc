// How much one thread of the load generator takes: many streams at once, many events a second.
// FIRESTEEL_FULL=1 measures for longer.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <thread>

#include "base/check.h"
#include "base/clock.h"
#include "bench/load_generator.h"
#include "bench/run_validity.h"
#include "bench/scripted_server.h"

namespace firesteel {
namespace {

std::string Event(const std::string& data) { return "data: " + data + "\n\n"; }

// One thread that feeds many streams in turn: `streams` connections, each with `events` events, all
// together `rate` events a second, evenly spread. Requests come first, then the fountain starts.
class Fountain {
 public:
  Fountain(int streams, int events, int rate) : streams_(streams), events_(events), rate_(rate) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    FS_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    FS_CHECK(listen(listener_, 4096) == 0);
    socklen_t size = sizeof(address);
    FS_CHECK(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { Serve(); });
  }
  ~Fountain() {
    stop_ = true;
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  std::string base_url() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  static std::string Chunk(const std::string& data) {
    char size[16];
    snprintf(size, sizeof(size), "%zx\r\n", data.size());
    return size + data + "\r\n";
  }
  static void Send(int socket, const std::string& bytes) {
    FS_CHECK(send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
             static_cast<ssize_t>(bytes.size()));
  }
  // Accepts and reads one request; its target, "" when the fountain is over.
  std::string Accept(int* client) {
    *client = accept(listener_, nullptr, nullptr);
    if (*client < 0) return "";
    const int on = 1;
    setsockopt(*client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    std::string request;
    char buffer[8192];
    while (request.find("\r\n\r\n") == std::string::npos ||
           (request.starts_with("POST") && !request.ends_with("}"))) {
      const ssize_t n = recv(*client, buffer, sizeof(buffer), 0);
      if (n <= 0) return "";
      request.append(buffer, static_cast<size_t>(n));
    }
    return request.substr(0, request.find(" HTTP/")) + request.substr(request.find("\r\n\r\n"));
  }

  void Serve() {
    const std::string head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"
        "Transfer-Encoding: chunked\r\n\r\n";
    std::vector<int> clients;
    while (!stop_) {
      int client = -1;
      const std::string request = Accept(&client);
      if (client < 0) break;
      if (!request.starts_with("POST /v1/completions")) {
        Send(client, "HTTP/1.1 404 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        close(client);
      } else if (request.find("\"Hello\"") != std::string::npos) {  // the probe
        Send(client,
             head +
                 Chunk(Event(R"({"choices":[{"text":"a","token_ids":[1]}]})") + Event("[DONE]")) +
                 "0\r\n\r\n");
        close(client);
      } else {
        Send(client, head);
        clients.push_back(client);
      }
      if (static_cast<int>(clients.size()) == streams_) {
        Flow(clients);
        clients.clear();
      }
    }
    for (const int client : clients) close(client);
  }

  void Flow(const std::vector<int>& clients) {
    // As large as a real server's events are.
    const std::string event = Chunk(
        Event(R"({"id":"cmpl-0123456789abcdef0123456789abcdef","object":"text_completion",)"
              R"("created":1780000000,"model":"some-model","choices":[{"index":0,"text":" word",)"
              R"("logprobs":null,"finish_reason":null,"token_ids":[1234]}]})"));
    const std::string end = Chunk(Event("[DONE]")) + "0\r\n\r\n";
    int64_t due_ns = Clock::Real().NowNs();
    for (int e = 0; e < events_; ++e) {
      for (const int client : clients) {
        due_ns += 1'000'000'000 / rate_;
        // Sleeping costs more than a send: only when ahead by a tenth of a millisecond.
        if (due_ns - Clock::Real().NowNs() > 100'000) {
          const timespec due = {.tv_sec = due_ns / 1'000'000'000,
                                .tv_nsec = due_ns % 1'000'000'000};
          clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, nullptr);
        }
        Send(client, event);
      }
    }
    for (const int client : clients) {
      Send(client, end);
      close(client);
    }
  }

  const int streams_, events_, rate_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

std::vector<Prompt> Prompts(int count) {
  std::vector<Prompt> prompts;
  for (int i = 0; i < count; ++i) prompts.push_back({.id = std::to_string(i), .text = "p"});
  return prompts;
}

TEST(LoadCapacityTest, AThousandStreamsAtOnce) {
  constexpr int kStreams = 1000, kEvents = 5;
  Fountain server(kStreams, kEvents, 10'000);
  LoadGeneratorOptions options;
  options.base_url = server.base_url();
  options.model = "m";
  options.max_concurrency = kStreams;
  const auto load = RunLoad(options, Prompts(kStreams), nullptr, nullptr);
  ASSERT_TRUE(load.ok()) << load.status().message();
  const RunResult run = MakeRunResult(options, *load);
  EXPECT_EQ(run.counts.completed, kStreams);
  EXPECT_EQ(run.peak_in_flight, kStreams);
  EXPECT_EQ(run.whole.output_tokens, kStreams * kEvents);
}

TEST(LoadCapacityTest, TwentyThousandEventsASecond) {
  constexpr int kStreams = 200, kRate = 21'000;
  const char* full = std::getenv("FIRESTEEL_FULL");
  const int seconds = full != nullptr && *full == '1' ? 20 : 2;
  const int events = seconds * kRate / kStreams;
  Fountain server(kStreams, events, kRate);
  LoadGeneratorOptions options;
  options.base_url = server.base_url();
  options.model = "m";
  options.max_concurrency = kStreams;
  const auto load = RunLoad(options, Prompts(kStreams), nullptr, nullptr);
  ASSERT_TRUE(load.ok()) << load.status().message();
  const RunResult run = MakeRunResult(options, *load);
  ASSERT_EQ(run.counts.completed, kStreams);
  EXPECT_EQ(run.whole.output_tokens, static_cast<int64_t>(kStreams) * events);
  const ClientHealth& client = run.client;
  const double rate = static_cast<double>(client.events) / client.wall_s;
  printf(
      "%.0f events/s, client %.0f %% of a core, %.3f ms late at P99 (P50 %.3f, max %.1f), "
      "kept from its core for %.1f %%\n",
      rate, 100 * client.cpu_s / client.wall_s, client.lag_p99_ms, client.lag_p50_ms,
      client.lag_max_ms, 100 * client.withheld_s / client.wall_s);
  // Whatever the machine does, the client's own work has to fit a core.
  EXPECT_LT(client.cpu_s, 0.9 * static_cast<double>(client.events) / 20'000);
  const auto has = [&](const char* id) {
    return std::any_of(run.findings.begin(), run.findings.end(), [&](const RunFinding& f) {
      return f.id == id && f.severity == FindingSeverity::kVoid;
    });
  };
  if (client.lag_p99_ms < 1) {
    EXPECT_FALSE(has("CPU_WITHHELD"));
    EXPECT_FALSE(has("CLIENT_LIMIT"));
    if (client.withheld_s / client.wall_s < 0.01) {
      EXPECT_GE(rate, 20'000);
    }
  } else {
    // Late only because the core was given to others, and then the run says so.
    EXPECT_TRUE(has("CPU_WITHHELD")) << client.lag_p99_ms;
    EXPECT_EQ(run.Status(), RunStatus::kVoid);
  }
}

}  // namespace
}  // namespace firesteel
