// Addresses as users write them: host and port.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::links {

struct endpoint {
  std::string host;
  std::uint16_t port = 0;

  bool operator==(const endpoint&) const = default;
};

/// Parses `HOST:PORT`, with an IPv6 address in brackets: `[::1]:7000`; null if `text` is invalid. Accepts port 0.
std::optional<endpoint> parse_endpoint(const std::string& text);

std::string to_string(const endpoint& where);

/// "A, B and C".
std::string description_of(const std::vector<endpoint>& all);

/// Returns whether `host` is an address or name of this machine's loopback: 127.0.0.0/8, ::1, localhost.
bool is_loopback(const std::string& host);

}  // namespace troupe::links
