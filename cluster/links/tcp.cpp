#include "cluster/links/tcp.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace troupe::links {

void close_on_exec(int descriptor) { ::fcntl(descriptor, F_SETFD, FD_CLOEXEC); }

void prepare(tcp_socket& socket) {
  // These calls fail only if the connection has ended, which the first read reports.
  boost::system::error_code ignored;
  socket.native_non_blocking(true, ignored);
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  close_on_exec(socket.native_handle());
}

void give_up_after(tcp_socket& socket, std::chrono::milliseconds dead_after) {
  constexpr int probes = 5;
  const int milliseconds = static_cast<int>(std::min<std::int64_t>(2 * dead_after.count(), 1'000'000'000));
  const int seconds = std::max(1, milliseconds / 2000);
  const int interval = std::max(1, seconds / probes);
  const int on = 1;
  const auto set = [&socket](int level, int name, int value) {
    ::setsockopt(socket.native_handle(), level, name, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, milliseconds);
  set(IPPROTO_TCP, TCP_KEEPIDLE, seconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, interval);
  set(IPPROTO_TCP, TCP_KEEPCNT, probes);
  set(SOL_SOCKET, SO_KEEPALIVE, on);
}

asio::ip::tcp::endpoint to_asio(const socket_address& address) {
  asio::ip::tcp::endpoint made;
  std::memcpy(made.data(), address.data(), address.size());
  made.resize(address.size());
  return made;
}

endpoint to_endpoint(const asio::ip::tcp::endpoint& address) { return {address.address().to_string(), address.port()}; }

std::string seconds_text(std::chrono::milliseconds time) {
  return fmt::format("{:.1f} s", std::chrono::duration<double>(time).count());
}

}  // namespace troupe::links
