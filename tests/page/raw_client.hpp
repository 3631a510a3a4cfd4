// A connection on which a test sends what no browser would.

#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::page {

class raw_client {
 public:
  explicit raw_client(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in where = {};
    where.sin_family = AF_INET;
    where.sin_port = htons(port);
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&where), sizeof where) == 0;
    const timeval timeout{20, 0};  // a silent server fails the test instead of blocking it
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  }
  ~raw_client() { ::close(socket_); }
  raw_client(const raw_client&) = delete;
  raw_client& operator=(const raw_client&) = delete;

  bool connected() const { return connected_; }
  /// Whether `read_all` or `read_answer` has seen the server close the connection.
  bool closed() const { return closed_; }

  void send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  /// Returns everything until the server closes.
  std::string read_all() {
    std::string all;
    while (more(all)) continue;
    return all;
  }

  /// Returns one answer, by its Content-Length; without a body (HEAD) if `has_body` is false.
  std::string read_answer(bool has_body = true) {
    for (;;) {
      const auto end = held_.find("\r\n\r\n");
      if (end != std::string::npos) {
        const std::size_t size = end + 4 + (has_body ? length_of(held_.substr(0, end)) : 0);
        if (held_.size() >= size) {
          const std::string answer = held_.substr(0, size);
          held_.erase(0, size);
          return answer;
        }
      }
      if (!more(held_)) return std::exchange(held_, "");
    }
  }

 private:
  static std::size_t length_of(const std::string& head) {
    constexpr std::string_view field = "Content-Length: ";
    const auto at = head.find(field);
    return at == std::string::npos ? 0 : std::stoul(head.substr(at + field.size()));
  }

  bool more(std::string& to) {
    std::array<char, 4096> bytes;
    const ssize_t got = ::recv(socket_, bytes.data(), bytes.size(), 0);
    if (got > 0) to.append(bytes.data(), static_cast<std::size_t>(got));
    closed_ = got == 0 || (got < 0 && errno == ECONNRESET);
    return got > 0;
  }

  int socket_;
  bool connected_ = false;
  bool closed_ = false;
  std::string held_;
};

}  // namespace troupe::page
