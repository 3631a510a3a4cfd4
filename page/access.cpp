#include "page/access.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cctype>
#include <random>
#include <utility>

#include "base/host.hpp"

namespace troupe::page {

namespace {

namespace asio = boost::asio;

/// The cookie's name has the port, because browsers share cookies between the ports of a host: pages of several runs
/// must not replace each other's.
std::string cookie_name(std::uint16_t port) { return fmt::format("troupe_page_{}", port); }

/// Returns the host of a Host field, without port, and without the brackets of an IPv6 address.
std::string_view host_of(std::string_view field) {
  if (field.starts_with('[')) {
    const auto end = field.find(']');
    return end == std::string_view::npos ? std::string_view() : field.substr(1, end - 1);
  }
  return field.substr(0, field.find(':'));
}

bool equal_names(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

/// Compares in a time that depends on the lengths only. Requires: `secret` is not empty.
bool is_same(std::string_view shown, std::string_view secret) {
  unsigned different = shown.size() == secret.size() ? 0 : 1;
  for (std::size_t i = 0; i < shown.size(); ++i)
    different |= static_cast<unsigned char>(shown[i]) ^ static_cast<unsigned char>(secret[i % secret.size()]);
  return different == 0;
}

}  // namespace

std::string make_token() {
  std::random_device system;  // getrandom or the like
  std::string token;
  for (int i = 0; i < 4; ++i) token += fmt::format("{:08x}", system());
  return token;
}

bool is_token(std::string_view text) {
  const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
  return text.size() >= 8 && text.size() <= 128 && std::ranges::all_of(text, fits);
}

access::access(std::string token, std::string host)
    : token_(std::move(token)), session_(make_token()), host_(std::move(host)) {}

bool access::is_for_us(std::string_view field) const {
  const std::string_view host = host_of(field);
  if (equal_names(host, "localhost") || equal_names(host, host_)) return true;
  boost::system::error_code error;
  const auto address = asio::ip::make_address(host, error);
  const bool is_address = !error;
  if (is_address && address.is_loopback()) return true;
  const auto listens = asio::ip::make_address(host_, error);
  const bool everywhere = !error && listens.is_unspecified();
  // DNS rebinding needs a name, so any address is accepted.
  return everywhere && (is_address || equal_names(host, host_name()));
}

bool access::is_right(std::string_view token) const { return is_same(token, token_); }

bool access::is_authorized(std::string_view authorization, std::string_view cookie, std::uint16_t port) const {
  constexpr std::string_view bearer = "bearer ";
  if (authorization.size() > bearer.size() && equal_names(authorization.substr(0, bearer.size()), bearer))
    return is_right(trimmed(authorization.substr(bearer.size())));
  const std::string name = cookie_name(port) + '=';
  while (!cookie.empty()) {
    const auto end = std::min(cookie.find(';'), cookie.size());
    const std::string_view one = trimmed(cookie.substr(0, end));
    if (one.starts_with(name) && is_same(one.substr(name.size()), session_)) return true;
    cookie.remove_prefix(std::min(end + 1, cookie.size()));
  }
  return false;
}

std::string access::cookie(std::uint16_t port) const {
  return fmt::format("{}={}; Path=/; HttpOnly; SameSite=Strict", cookie_name(port), session_);
}

}  // namespace troupe::page
