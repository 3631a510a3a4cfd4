#include "tests/hosts/relay.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "cluster/links/frame.hpp"

namespace troupe::hosts {

namespace {

using clock = std::chrono::steady_clock;

// How much is read at a time, and held at most. A slow line reads little at a time, so that delayed bytes are not
// delivered all at once, and holds little, so that the sender notices.
constexpr std::size_t part_bytes = std::size_t{64} << 10;
constexpr std::size_t slow_part_bytes = std::size_t{8} << 10;
constexpr std::size_t held_bytes_max = std::size_t{64} << 20;
constexpr std::size_t slow_held_bytes_max = std::size_t{32} << 10;

int check(int value, const std::string& what) {
  if (value < 0) throw std::runtime_error(fmt::format("relay: {}: {}", what, std::strerror(errno)));
  return value;
}

sockaddr_in address_of(const links::endpoint& where) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(where.port);
  if (::inet_pton(AF_INET, where.host.c_str(), &address.sin_addr) != 1)
    throw std::runtime_error("relay: no IPv4 address: " + where.host);
  return address;
}

int make_socket() { return check(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"); }

int bind_to(int socket, const links::endpoint& where) {
  const int on = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const sockaddr_in address = address_of(where);
  return ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

std::uint16_t port_of(int socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  check(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size), "getsockname");
  return ntohs(address.sin_port);
}

void send_at_once(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/// Returns the first whole frame of `bytes` with some content, that is, not a mere sign of life.
std::span<char> first_frame(std::vector<char>& bytes) {
  constexpr std::size_t content_min = 128;
  constexpr links::link_limits limits;
  for (std::size_t begin = 0; begin + links::frame_header_bytes <= bytes.size(); ++begin) {
    const std::span<char> rest(bytes.data() + begin, bytes.size() - begin);
    const auto header = links::parse_frame_header(std::as_bytes(rest).first(links::frame_header_bytes), limits);
    if (!header || header->length < content_min || header->length > rest.size() - links::frame_header_bytes) continue;
    return rest.first(links::frame_header_bytes + header->length);
  }
  return {};
}

bool would_wait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

/// One direction of a connection.
struct relay::stretch {
  struct part {
    clock::time_point due;
    std::vector<char> bytes;
    std::size_t sent = 0;
  };

  int from = -1;
  int to = -1;
  std::deque<part> held;
  std::size_t held_bytes = 0;
  clock::time_point free_at;  // when a slow line has sent everything up to now
  bool ended = false;         // nothing more arrives
  bool cut_off = false;       // the other direction also ends
  bool told = false;          // the end was passed on
  bool broken = false;
};

struct relay::connection {
  connection(int client, int target) {
    ways[0].from = ways[1].to = client;
    ways[0].to = ways[1].from = target;
  }
  ~connection() {
    ::close(ways[0].from);
    ::close(ways[0].to);
  }
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  std::array<stretch, 2> ways;
};

relay::relay(const std::string& host, const links::endpoint& target, travel how) : how_(how), target_(target) {
  constexpr int tries = 100;
  for (int left = tries; listening_ < 0; --left) {
    listening_ = make_socket();
    check(bind_to(listening_, {host, 0}), host);
    address_ = {host, port_of(listening_)};
    if (target.port != 0) break;
    target_.port = address_.port;
    reserved_ = make_socket();
    if (bind_to(reserved_, target_) == 0 || errno == EADDRNOTAVAIL) break;
    check(left > 0 ? 0 : -1, "no port is free at both ends");
    ::close(std::exchange(reserved_, -1));
    ::close(std::exchange(listening_, -1));
  }
  check(::listen(listening_, SOMAXCONN), "listen");
  wakes_ = check(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd");
  thread_ = std::thread([this] { work(); });
}

relay::~relay() {
  ends_ = true;
  wake();
  thread_.join();
  for (const int one : {listening_, reserved_, wakes_})
    if (one >= 0) ::close(one);
}

void relay::swallow(way which) {
  swallows_[static_cast<std::size_t>(which)] = true;
  wake();
}

void relay::spoil(way which, damage how) {
  const std::scoped_lock lock(mutex_);
  wanted_[static_cast<std::size_t>(which)] = how;
}

void relay::lose() {
  loses_ = true;
  wake();
}

void relay::wake() const {
  const std::uint64_t one = 1;
  check(static_cast<int>(::write(wakes_, &one, sizeof one)), "eventfd");
}

void relay::work() {
  while (!ends_) {
    std::vector<pollfd> waiting = {{wakes_, POLLIN, 0}, {loses_ ? -1 : listening_, POLLIN, 0}};
    auto next = clock::now() + std::chrono::hours(1);
    const std::size_t held_max = how_.bytes_per_s > 0 ? slow_held_bytes_max : held_bytes_max;
    for (const connection& one : connections_) {
      for (const stretch& s : one.ways) {
        // A descriptor without requested events is left out: poll would report its end again and again.
        if (!s.ended && s.held_bytes < held_max) waiting.push_back({s.from, POLLIN, 0});
        if (s.held.empty()) continue;
        if (s.held.front().due > clock::now())
          next = std::min(next, s.held.front().due);
        else
          waiting.push_back({s.to, POLLOUT, 0});
      }
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - clock::now()).count();
    ::poll(waiting.data(), waiting.size(), static_cast<int>(std::max<std::int64_t>(0, left)));
    std::uint64_t ignored = 0;
    while (::read(wakes_, &ignored, sizeof ignored) > 0) continue;
    if (loses_) connections_.clear();
    if (waiting[1].revents != 0 && !loses_) accept();
    std::erase_if(connections_, [this](connection& one) { return !move(one); });
  }
  connections_.clear();
}

void relay::accept() {
  const int client = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
  if (client < 0) return;
  const int target = make_socket();
  const sockaddr_in address = address_of(target_);
  if (::connect(target, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ::close(client);
    ::close(target);
    return;
  }
  send_at_once(client);
  send_at_once(target);
  connections_.emplace_back(client, target);
}

/// Returns false once the connection is over.
bool relay::move(connection& one) {
  for (const way which : {way::there, way::back}) {
    stretch& s = one.ways[static_cast<std::size_t>(which)];
    take(s, which);
    deliver(s, which);
    if (s.broken) return false;
  }
  return !one.ways[0].told || !one.ways[1].told;
}

void relay::take(stretch& one, way which) {
  const bool slow = how_.bytes_per_s > 0;
  const bool swallows = swallows_[static_cast<std::size_t>(which)];
  while (!one.ended && one.held_bytes < (slow ? slow_held_bytes_max : held_bytes_max)) {
    std::vector<char> bytes(slow ? slow_part_bytes : part_bytes);
    const ssize_t got = ::recv(one.from, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && would_wait()) return;
    if (got <= 0) {
      one.ended = true;
      one.broken = got < 0 && !swallows;
      return;
    }
    if (swallows) continue;
    bytes.resize(static_cast<std::size_t>(got));
    spoil_if_wanted(one, which, bytes);
    if (bytes.empty()) continue;
    auto due = clock::now() + how_.delay;
    if (slow) {
      due = std::max(due, one.free_at) + std::chrono::nanoseconds(std::nano::den * bytes.size() / how_.bytes_per_s);
      one.free_at = due;
    }
    one.held_bytes += bytes.size();
    one.held.push_back({due, std::move(bytes), 0});
  }
}

void relay::spoil_if_wanted(stretch& one, way which, std::vector<char>& bytes) {
  const std::scoped_lock lock(mutex_);
  auto& wanted = wanted_[static_cast<std::size_t>(which)];
  if (!wanted) return;
  const std::span<char> spoilt = wanted->encrypted ? std::span<char>(bytes) : first_frame(bytes);
  if (spoilt.empty()) return;
  const auto begin = bytes.begin() + (spoilt.data() - bytes.data());
  const auto end = begin + static_cast<std::ptrdiff_t>(spoilt.size());
  constexpr std::size_t bits = 8;
  const auto place = begin + static_cast<std::ptrdiff_t>(wanted->at % spoilt.size());
  switch (wanted->what) {
    case damage::kind::flip: {
      const std::size_t bit = wanted->at % (spoilt.size() * bits);
      spoilt[bit / bits] = static_cast<char>(spoilt[bit / bits] ^ (1 << (bit % bits)));
      break;
    }
    case damage::kind::drop:
      bytes.erase(place, end);
      break;
    case damage::kind::lose:
      bytes.erase(begin, end);
      break;
    case damage::kind::repeat: {
      const std::vector<char> again(begin, end);
      bytes.insert(end, again.begin(), again.end());
      break;
    }
    case damage::kind::cut_off:
      bytes.erase(place, bytes.end());
      one.ended = one.cut_off = true;
      break;
  }
  wanted.reset();
  has_spoiled_ = true;
}

void relay::deliver(stretch& one, way which) {
  if (swallows_[static_cast<std::size_t>(which)]) {
    one.held.clear();
    one.held_bytes = 0;
    return;
  }
  while (!one.held.empty() && one.held.front().due <= clock::now()) {
    stretch::part& next = one.held.front();
    const ssize_t sent =
        ::send(one.to, next.bytes.data() + next.sent, next.bytes.size() - next.sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      one.broken = !would_wait();
      return;
    }
    passed_[static_cast<std::size_t>(which)] += static_cast<std::uint64_t>(sent);
    next.sent += static_cast<std::size_t>(sent);
    one.held_bytes -= static_cast<std::size_t>(sent);
    if (next.sent == next.bytes.size()) one.held.pop_front();
  }
  if (!one.ended || !one.held.empty() || std::exchange(one.told, true)) return;
  one.broken = one.cut_off;  // closes both directions
  ::shutdown(one.to, SHUT_WR);
}

}  // namespace troupe::hosts
