#include "bench/scripted_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <mutex>
#include <set>
#include <thread>

#include "base/check.h"
#include "base/clock.h"

namespace firesteel {
namespace {

void SendAll(int socket, const std::string& bytes) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;
    sent += static_cast<size_t>(n);
  }
}

// One request; false when the connection ended before it was complete.
bool ReadRequest(int socket, std::string* target, std::string* body) {
  std::string bytes;
  size_t header_end = std::string::npos;
  size_t body_size = 0;
  char buffer[4096];
  while (header_end == std::string::npos || bytes.size() < header_end + body_size) {
    const ssize_t n = recv(socket, buffer, sizeof(buffer), 0);
    if (n <= 0) return false;
    bytes.append(buffer, static_cast<size_t>(n));
    if (header_end != std::string::npos) continue;
    const size_t blank = bytes.find("\r\n\r\n");
    if (blank == std::string::npos) continue;
    header_end = blank + 4;
    const size_t length = bytes.find("Content-Length: ");
    if (length < blank) body_size = std::strtoul(bytes.c_str() + length + 16, nullptr, 10);
  }
  *target = bytes.substr(0, bytes.find(" HTTP/"));
  *body = bytes.substr(header_end);
  return true;
}

}  // namespace

struct ScriptedServer::Impl {
  Handler handler;
  int listener = -1;
  int port = 0;
  std::thread acceptor;
  std::vector<std::thread> connections;  // acceptor thread, then the destructor
  std::mutex mutex;
  std::set<int> open;  // sockets that are served, so that the destructor can end idle ones

  void Serve(int socket) {
    std::string target, body;
    while (ReadRequest(socket, &target, &body)) {
      const ScriptedAnswer answer = handler(target, body);
      Write(socket, answer);
      if (!answer.keep_alive || answer.close_after || answer.cut) break;
    }
    const std::lock_guard lock(mutex);
    open.erase(socket);
    close(socket);
  }

  static void Write(int socket, const ScriptedAnswer& answer) {
    int64_t due_ns = Clock::Real().NowNs();
    SendAll(socket, fmt::format("HTTP/1.1 {} Scripted\r\nContent-Type: {}\r\nConnection: {}\r\n"
                                "Transfer-Encoding: chunked\r\n\r\n",
                                answer.status, answer.content_type,
                                answer.keep_alive ? "keep-alive" : "close"));
    for (size_t i = 0; i < answer.pieces.size(); ++i) {
      if (i < answer.delays_us.size()) {
        // Absolute times: a late piece does not make the next one late.
        due_ns += answer.delays_us[i] * 1000;
        const timespec due = {.tv_sec = due_ns / 1'000'000'000, .tv_nsec = due_ns % 1'000'000'000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, nullptr);
      }
      const std::string& piece = answer.pieces[i];
      if (answer.on_write) answer.on_write(i, Clock::Real().NowNs());
      SendAll(socket, fmt::format("{:x}\r\n{}\r\n", piece.size(), piece));
    }
    if (!answer.cut) SendAll(socket, "0\r\n\r\n");
  }
};

ScriptedServer::ScriptedServer(Handler handler) : impl_(std::make_unique<Impl>()) {
  impl_->handler = std::move(handler);
  impl_->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  FS_CHECK(bind(impl_->listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
  FS_CHECK(listen(impl_->listener, 4096) == 0);
  socklen_t size = sizeof(address);
  FS_CHECK(getsockname(impl_->listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  impl_->port = ntohs(address.sin_port);
  impl_->acceptor = std::thread([impl = impl_.get()] {
    for (;;) {
      const int client = accept(impl->listener, nullptr, nullptr);
      if (client < 0) return;
      const int on = 1;
      setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      {
        const std::lock_guard lock(impl->mutex);
        impl->open.insert(client);
      }
      impl->connections.emplace_back([impl, client] { impl->Serve(client); });
    }
  });
}

ScriptedServer::~ScriptedServer() {
  shutdown(impl_->listener, SHUT_RDWR);
  impl_->acceptor.join();
  {
    const std::lock_guard lock(impl_->mutex);
    for (const int socket : impl_->open) shutdown(socket, SHUT_RD);
  }
  for (std::thread& connection : impl_->connections) connection.join();
  close(impl_->listener);
}

std::string ScriptedServer::base_url() const {
  return fmt::format("http://127.0.0.1:{}", impl_->port);
}

}  // namespace firesteel
