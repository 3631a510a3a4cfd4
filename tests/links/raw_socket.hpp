// A socket that sends what a test passes in, in place of a link.

#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cluster/links/endpoint.hpp"

namespace troupe::links {

class raw_socket {
 public:
  explicit raw_socket(int descriptor) : descriptor_(descriptor) {}
  ~raw_socket() { close(); }
  raw_socket(raw_socket&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)), received_(std::move(other.received_)) {}
  raw_socket& operator=(raw_socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(received_, other.received_);
    return *this;
  }

  /// Connects to the port of `where` on this machine, from any port of `source`.
  static raw_socket to(const endpoint& where, const char* source = "127.0.0.1") {
    raw_socket made(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in mine = loopback(0);
    EXPECT_EQ(::inet_pton(AF_INET, source, &mine.sin_addr), 1);
    EXPECT_EQ(::bind(made.descriptor_, reinterpret_cast<const sockaddr*>(&mine), sizeof(mine)), 0);
    const sockaddr_in address = loopback(where.port);
    EXPECT_EQ(::connect(made.descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return made;
  }

  int descriptor() const { return descriptor_; }

  void close() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }

  /// Ends the connection like a process that was killed with unread bytes.
  void reset() {
    const linger at_once{1, 0};
    ::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close();
  }

  void say(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
  }

  void say(const std::string& text) { say(std::as_bytes(std::span(text))); }

  /// Reads all available bytes; returns false once the other side has ended.
  bool hear() {
    std::vector<std::byte> part(std::size_t{64} << 10);
    for (;;) {
      const ssize_t got = ::recv(descriptor_, part.data(), part.size(), MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN)) return false;
      if (got < 0) return true;
      received_.insert(received_.end(), part.begin(), part.begin() + got);
    }
  }

  /// All bytes that were received and not yet taken.
  std::vector<std::byte>& received() { return received_; }
  std::vector<std::byte> take() { return std::exchange(received_, {}); }

  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }

 private:
  int descriptor_;
  std::vector<std::byte> received_;
};

/// Listens on a free port of this machine.
class raw_server {
 public:
  raw_server() : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = raw_socket::loopback(0);
    EXPECT_EQ(::bind(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(descriptor_, 16), 0);
    socklen_t size = sizeof(address);
    ::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size);
    where_ = {"127.0.0.1", ntohs(address.sin_port)};
  }
  ~raw_server() { ::close(descriptor_); }
  raw_server(const raw_server&) = delete;
  raw_server& operator=(const raw_server&) = delete;

  const endpoint& address() const { return where_; }

  /// Accepts a waiting connection; returns false if no connection waits.
  bool accept(raw_socket& into) const {
    const int found = ::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC);
    if (found >= 0) into = raw_socket(found);
    return found >= 0;
  }

 private:
  int descriptor_;
  endpoint where_;
};

}  // namespace troupe::links
