// Where somebody listens: host and port, as users write them.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace troupe::links {

struct endpoint {
  std::string host;
  std::uint16_t port = 0;

  bool operator==(const endpoint&) const = default;
};

/// Reads `HOST:PORT`; an IPv6 address stands in brackets: `[::1]:7000`. Null if `text` is none. Port 0 is read as any
/// other.
std::optional<endpoint> parse_endpoint(const std::string& text);

std::string to_string(const endpoint& where);

/// True for addresses and names that reach this machine only: 127.0.0.0/8, ::1, localhost.
bool is_loopback(const std::string& host);

}  // namespace troupe::links
