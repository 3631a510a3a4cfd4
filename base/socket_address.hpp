// Addresses of TCP sockets: non-blocking lookup of names, and listening.

#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace troupe {

/// An IPv4 or IPv6 address with a port.
class socket_address {
 public:
  socket_address(const sockaddr* address, socklen_t size);

  /// Parses an address, as in 127.0.0.1 or fe80::1%eth0; null for a name.
  static std::optional<socket_address> parse(const std::string& host, std::uint16_t port);

  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&bytes_); }
  socklen_t size() const { return size_; }
  bool is_ipv6() const { return bytes_.ss_family == AF_INET6; }
  std::uint16_t port() const;
  void set_port(std::uint16_t port);

  bool operator==(const socket_address& other) const;

 private:
  sockaddr_storage bytes_{};
  socklen_t size_;
};

/// "127.0.0.1:7000", "[::1]:7000".
std::string to_string(const socket_address& address);

/// Returns the address of a bound socket.
socket_address address_of(const descriptor& socket);

enum class address_use : std::uint8_t { connect, listen };

/// Looks up a name's addresses on an extra thread, which may take as long as the system's resolver: it blocks neither a
/// caller that stops waiting nor the end of the program.
class name_lookup {
 public:
  /// Faults: no thread, no pipe.
  static result<name_lookup> begin(const std::string& host, std::uint16_t port, address_use use);

  /// Readable once `found` has an answer.
  const descriptor& ready() const { return ready_; }

  /// Returns the addresses in the order for trying them. Requires: `ready` is readable. Faults, of kind input, contain
  /// only the reason.
  result<std::vector<socket_address>> found() const;

 private:
  struct answer;

  name_lookup(std::shared_ptr<const answer> what, descriptor ready)
      : answer_(std::move(what)), ready_(std::move(ready)) {}

  std::shared_ptr<const answer> answer_;
  descriptor ready_;
};

/// Returns the addresses of a name, or `host` itself if it is an address. Blocks; ends early when `stop_asked`.
result<std::vector<socket_address>> addresses_of(const std::string& host, std::uint16_t port, address_use use);

/// Sockets that listen at all addresses of a name, with the same port.
struct listening_sockets {
  std::vector<descriptor> sockets;
  std::vector<socket_address> addresses;
  /// Addresses of the name that this machine does not have, each with the system's reason.
  std::vector<std::string> left_out;
};

/// Listens at each of `addresses` (at least one); if the first has port 0, at a port that is free at all of them.
/// Faults name the address: address_in_use, even if only one is in use, since a connection by name would reach another
/// process there; input if this machine has none of them.
result<listening_sockets> listen_at_all(const std::vector<socket_address>& addresses);

}  // namespace troupe
