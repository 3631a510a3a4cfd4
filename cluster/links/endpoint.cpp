#include "cluster/links/endpoint.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "base/number.hpp"

namespace troupe::links {

namespace {

constexpr std::size_t host_length_max = 255;  // the DNS's limit for a name

bool is_letter_or_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool is_name(std::string_view host) {
  return !host.empty() && host.size() <= host_length_max && host.front() != '-' &&
         std::all_of(host.begin(), host.end(),
                     [](char c) { return is_letter_or_digit(c) || c == '-' || c == '.' || c == '_'; });
}

/// Returns whether `host` is an IPv6 address, with or without a scope, as in fe80::1%eth0.
bool is_ipv6(std::string_view host) {
  if (host.size() > host_length_max) return false;
  in6_addr address{};
  const std::size_t scope = host.find('%');
  if (scope != std::string_view::npos && !is_name(host.substr(scope + 1))) return false;
  return ::inet_pton(AF_INET6, std::string(host.substr(0, scope)).c_str(), &address) == 1;
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
  constexpr std::size_t digits_max = 5;
  if (text.size() > digits_max || text.starts_with('+')) return std::nullopt;
  return parse_number<std::uint16_t>(text);
}

}  // namespace

std::optional<endpoint> parse_endpoint(const std::string& text) {
  const std::string_view all = text;
  const std::size_t colon = all.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = all.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    if (!is_ipv6(host)) return std::nullopt;
  } else if (!is_name(host)) {
    return std::nullopt;
  }
  const auto port = parse_port(all.substr(colon + 1));
  if (!port) return std::nullopt;
  return endpoint{std::string(host), *port};
}

std::string to_string(const endpoint& where) {
  const bool brackets = where.host.find(':') != std::string::npos;
  return (brackets ? "[" + where.host + "]" : where.host) + ":" + std::to_string(where.port);
}

std::string description_of(const std::vector<endpoint>& all) {
  std::string text;
  for (std::size_t i = 0; i < all.size(); ++i)
    text += (i == 0 ? "" : i + 1 == all.size() ? " and " : ", ") + to_string(all[i]);
  return text;
}

bool is_loopback(const std::string& host) {
  constexpr std::uint32_t loopback_net = 127;
  constexpr unsigned net_shift = 24;
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> net_shift == loopback_net;
  in6_addr v6{};
  if (::inet_pton(AF_INET6, host.c_str(), &v6) == 1) {
    constexpr std::size_t v4_begin = 12;  // offset of the IPv4 address in an IPv4-mapped IPv6 address
    return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[v4_begin] == loopback_net);
  }
  constexpr std::string_view name = "localhost";
  return std::equal(host.begin(), host.end(), name.begin(), name.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b; });
}

}  // namespace troupe::links
