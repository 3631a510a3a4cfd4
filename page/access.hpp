// Who is let in: those who have the token, and who came here on purpose.
//
// A browser shows the token once, in the address, and gets a cookie for it. Browsers tell cookies apart by host only: a
// server of somebody else on another port of this machine is sent it too. So it is not the token, and lets nobody in
// once this server has ended.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::page {

/// A token that nobody can guess: 128 random bits, as hexadecimal digits.
std::string make_token();

/// Whether `text` can be a token: 8 to 128 letters, digits, `-` and `_`, which need no escape anywhere.
bool is_token(std::string_view text);

/// Decides on requests to one server. From any thread.
class access {
 public:
  /// `host`: what the server listens on, as it was given.
  access(std::string token, std::string host);

  /// Whether a request for `host`, a Host field, was meant for this server. A page of another site can have its own
  /// name point here (DNS rebinding), and then reads what it likes with the browser's rights: so only names and
  /// addresses of this machine are right.
  bool is_for_us(std::string_view host) const;

  /// Compares in a time that does not tell how much of it is right.
  bool is_right(std::string_view token) const;
  /// Whether field `Authorization` holds the token, or `Cookie` what `cookie` has given out.
  bool is_authorized(std::string_view authorization, std::string_view cookie, std::uint16_t port) const;

  /// The value of a Set-Cookie field that lets the browser in from here on.
  std::string cookie(std::uint16_t port) const;

 private:
  std::string token_;
  std::string session_;  ///< the cookie's value, made anew for each server
  std::string host_;
};

}  // namespace troupe::page
