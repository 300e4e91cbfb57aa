// For tests: a socket that sends exactly these bytes and shows exactly what comes back. Blocking,
// with a limit of 20 s.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace firesteel {

class RawClient {
 public:
  explicit RawClient(int32_t port, int receive_buffer_bytes = 0)
      : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer_bytes > 0) {
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes,
                 sizeof receive_buffer_bytes);
    }
    const timeval limit{.tv_sec = 20, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawClient() { Close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  bool connected() const { return connected_; }

  // False when the peer has closed.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t size = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (size <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(size));
    }
    return true;
  }

  void HalfClose() { shutdown(socket_, SHUT_WR); }
  void Close() {
    if (socket_ >= 0) close(socket_);
    socket_ = -1;
  }

  // What has come up to and including `mark`; what follows stays for the next call. All there was
  // when the peer closes first.
  std::string ReadUntil(std::string_view mark) {
    while (true) {
      const size_t found = received_.find(mark);
      if (found != std::string::npos) return Cut(found + mark.size());
      if (!Receive()) return Cut(received_.size());
    }
  }

  // One response with a Content-Length: headers and body.
  std::string ReadResponse() {
    std::string response = ReadUntil("\r\n\r\n");
    const size_t field = response.find("Content-Length: ");
    if (field == std::string::npos) return response;
    const size_t length = std::stoul(response.substr(field + 16));
    while (received_.size() < length && Receive()) {
    }
    return response + Cut(length);
  }

  std::string ReadToEnd() {
    while (Receive()) {
    }
    return Cut(received_.size());
  }

 private:
  bool Receive() {
    std::array<char, 4096> bytes;
    const ssize_t size = recv(socket_, bytes.data(), bytes.size(), 0);
    if (size <= 0) return false;
    received_.append(bytes.data(), static_cast<size_t>(size));
    return true;
  }

  std::string Cut(size_t size) {
    std::string head = received_.substr(0, size);
    received_.erase(0, size);
    return head;
  }

  int socket_ = -1;
  bool connected_ = false;
  std::string received_;
};

}  // namespace firesteel
