// Access control of the page: requests need the token, and a Host field that names this machine.
//
// A browser sends the token once, in the address, and gets a cookie. Browsers share cookies between the ports of a
// host, so another user's server on this machine can receive it. Therefore the cookie is not the token, and is valid
// for this server only.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::page {

/// Returns a new token: 128 random bits as hexadecimal digits.
std::string make_token();

/// Returns whether `text` is a valid token: 8 to 128 letters, digits, `-` and `_`, which need no escape anywhere.
bool is_token(std::string_view text);

/// The access control of one server. Thread: any.
class access {
 public:
  /// `host`: the address or name that the server listens on.
  access(std::string token, std::string host);

  /// Returns whether the Host field `host` names this machine. This stops DNS rebinding: otherwise another site that
  /// points its own name at this machine could read the page with the browser's rights.
  bool is_for_us(std::string_view host) const;

  /// Compares with the token in constant time.
  bool is_right(std::string_view token) const;
  /// Returns whether the field `Authorization` has the token, or the field `Cookie` the session of `cookie`.
  bool is_authorized(std::string_view authorization, std::string_view cookie, std::uint16_t port) const;

  /// Returns the value of a Set-Cookie field that gives the browser access.
  std::string cookie(std::uint16_t port) const;

 private:
  std::string token_;
  std::string session_;  ///< the cookie's value, random for each server
  std::string host_;
};

}  // namespace troupe::page
