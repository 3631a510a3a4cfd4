#include "base/socket_address.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/stop_request.hpp"

namespace troupe {

namespace {

using found_addresses = result<std::vector<socket_address>>;

/// Calls the system's resolver, which may block for long, but not with `AI_NUMERICHOST`.
found_addresses resolve(const std::string& host, std::uint16_t port, address_use use, int flags = 0) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags | (use == address_use::listen ? AI_PASSIVE : 0);
  addrinfo* first = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &first); error != 0)
    return bad_input(error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(first, &::freeaddrinfo);
  std::vector<socket_address> found;
  for (const addrinfo* one = first; one != nullptr; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    const socket_address address(one->ai_addr, one->ai_addrlen);
    if (std::ranges::find(found, address) == found.end()) found.push_back(address);
  }
  if (found.empty()) return bad_input("it has no address of IPv4 or IPv6");
  return found;
}

}  // namespace

// -- addresses ------------------------------------------------------------------------

socket_address::socket_address(const sockaddr* address, socklen_t size) : size_(size) {
  std::memcpy(&bytes_, address, size);
}

std::optional<socket_address> socket_address::parse(const std::string& host, std::uint16_t port) {
  const auto found = resolve(host, port, address_use::connect, AI_NUMERICHOST);
  return found ? std::optional(found->front()) : std::nullopt;
}

std::uint16_t socket_address::port() const {
  return ntohs(is_ipv6() ? reinterpret_cast<const sockaddr_in6&>(bytes_).sin6_port
                         : reinterpret_cast<const sockaddr_in&>(bytes_).sin_port);
}

void socket_address::set_port(std::uint16_t port) {
  (is_ipv6() ? reinterpret_cast<sockaddr_in6&>(bytes_).sin6_port : reinterpret_cast<sockaddr_in&>(bytes_).sin_port) =
      htons(port);
}

bool socket_address::operator==(const socket_address& other) const {
  return size_ == other.size_ && std::memcmp(&bytes_, &other.bytes_, size_) == 0;
}

std::string to_string(const socket_address& address) {
  std::array<char, NI_MAXHOST> host{};
  ::getnameinfo(address.data(), address.size(), host.data(), host.size(), nullptr, 0, NI_NUMERICHOST);
  return address.is_ipv6() ? fmt::format("[{}]:{}", host.data(), address.port())
                           : fmt::format("{}:{}", host.data(), address.port());
}

socket_address address_of(const descriptor& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  ::getsockname(socket.number(), reinterpret_cast<sockaddr*>(&address), &size);
  return {reinterpret_cast<const sockaddr*>(&address), size};
}

// -- names ----------------------------------------------------------------------------

struct name_lookup::answer {
  mutable std::mutex mutex;
  found_addresses found = bad_input("it is still being looked up");
};

result<name_lookup> name_lookup::begin(const std::string& host, std::uint16_t port, address_use use) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return run_fault("no pipe to look it up: {}", std::strerror(errno));
  descriptor ready = descriptor::adopt(ends[0]);
  auto done = std::make_shared<descriptor>(descriptor::adopt(ends[1]));
  auto what = std::make_shared<answer>();
  try {
    std::thread([what, done = std::move(done), host, port, use] {
      auto found = resolve(host, port, use);
      {
        const std::lock_guard lock(what->mutex);
        what->found = std::move(found);
      }
      (void)write_all(done->number(), "!");
    }).detach();
  } catch (const std::system_error& error) {
    return run_fault("no thread to look it up: {}", error.what());
  }
  return name_lookup(std::move(what), std::move(ready));
}

found_addresses name_lookup::found() const {
  const std::lock_guard lock(answer_->mutex);
  return answer_->found;
}

found_addresses addresses_of(const std::string& host, std::uint16_t port, address_use use) {
  if (const auto address = socket_address::parse(host, port)) return std::vector{*address};
  TROUPE_TRY(lookup, name_lookup::begin(host, port, use));
  constexpr int look_ms = 50;
  pollfd ready{.fd = lookup.ready().number(), .events = POLLIN, .revents = 0};
  while (::poll(&ready, 1, look_ms) <= 0)
    if (stop_asked()) return stopped("its address is being looked up");
  return lookup.found();
}

// -- listening ------------------------------------------------------------------------

namespace {

/// Returns whether an error means that this machine lacks an address, or its whole family.
bool lacks_address(int error) { return error == EADDRNOTAVAIL || error == EAFNOSUPPORT; }

fault cannot_listen(const socket_address& where, int error) {
  if (error == EADDRINUSE)
    return {fault_kind::address_in_use,
            fmt::format("{}: the port is in use; choose another, or 0 for any free one", to_string(where))};
  const char* advice = lacks_address(error) ? "; give an address of this machine, such as 127.0.0.1 or 0.0.0.0"
                       : error == EMFILE || error == ENFILE ? "; see `ulimit -n`"
                                                            : "";
  return {fault_kind::input,
          fmt::format("{}: cannot listen there: {}{}", to_string(where), std::strerror(error), advice)};
}

/// Opens a listening socket; or sets `error`. `alone`: it is the only one with its port.
std::optional<descriptor> listen_at_one(const socket_address& where, bool alone, int& error) {
  error = 0;
  descriptor made = descriptor::adopt(::socket(where.data()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  const auto set = [&](int level, int name) { return ::setsockopt(made.number(), level, name, &on, sizeof(on)) == 0; };
  // Otherwise [::] would also use the port at IPv4's addresses.
  if (made.number() >= 0 && set(SOL_SOCKET, SO_REUSEADDR) &&
      (alone || !where.is_ipv6() || set(IPPROTO_IPV6, IPV6_V6ONLY)) &&
      ::bind(made.number(), where.data(), where.size()) == 0 && ::listen(made.number(), SOMAXCONN) == 0)
    return made;
  error = errno;
  return std::nullopt;
}

/// Listens at all addresses; a port chosen at the first may be in use at the next.
result<listening_sockets> listen_once(const std::vector<socket_address>& addresses) {
  listening_sockets made;
  std::optional<fault> last;
  for (socket_address where : addresses) {
    if (!made.sockets.empty()) where.set_port(made.addresses.front().port());
    int error = 0;
    auto socket = listen_at_one(where, addresses.size() == 1, error);
    if (!socket) {
      last = cannot_listen(where, error);
      if (!lacks_address(error)) return tl::unexpected(std::move(*last));
      made.left_out.push_back(fmt::format("{}: {}", to_string(where), std::strerror(error)));
      continue;
    }
    made.addresses.push_back(address_of(*socket));
    made.sockets.push_back(std::move(*socket));
  }
  if (!made.sockets.empty()) return made;
  if (made.left_out.size() < 2) return tl::unexpected(std::move(*last));
  return bad_input("cannot listen at any of its addresses ({}); give one of this machine, such as 127.0.0.1 or 0.0.0.0",
                   fmt::join(made.left_out, "; "));
}

}  // namespace

result<listening_sockets> listen_at_all(const std::vector<socket_address>& addresses) {
  constexpr int tries = 16;
  auto made = listen_once(addresses);
  for (int next = 1; next < tries && !made && made.error().kind == fault_kind::address_in_use; ++next) {
    if (addresses.front().port() != 0 || addresses.size() == 1) break;
    made = listen_once(addresses);
  }
  return made;
}

}  // namespace troupe
