#include "protocol/errors.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/advice.hpp"

namespace troupe::protocol {

namespace {

constexpr std::array<std::string_view, 13> names = {
    "none",          "bad_input", "unknown_module", "bad_index", "shape_mismatch", "wrong_context", "not_finite",
    "out_of_memory", "exception", "peer_failed",    "timeout",   "malformed",      "device_failed"};

/// Returns the name of a CAF enumerator in plain English: `caf::sec::type_clash` is "type clash".
std::string plain(std::string name) {
  name.erase(0, name.rfind(':') + 1);  // erases nothing if there is no colon
  std::ranges::replace(name, '_', ' ');
  return name;
}

/// Describes an error of CAF. Most codes belong to parts of CAF that Troupe does not use.
std::string meaning_of(const caf::error& error) {
  if (!error) return "no error";
  if (error == caf::sec::request_timeout) return "no answer came in time";
  if (error == caf::sec::unexpected_message) return "the receiver does not handle this message";
  if (error == caf::sec::runtime_error && error.context().match_elements<std::string>())
    return error.context().get_as<std::string>(0);  // an exception's text
  if (error.category() == caf::type_id_v<caf::exit_reason>)
    return fmt::format("it was ended ({})", plain(to_string(static_cast<caf::exit_reason>(error.code()))));
  if (error.category() == caf::type_id_v<caf::sec>)
    return fmt::format("messages failed: {}", plain(to_string(static_cast<caf::sec>(error.code()))));
  return fmt::format("an error of kind {} with code {}", error.category(), error.code());
}

}  // namespace

std::string to_string(errc x) {
  auto number = static_cast<std::size_t>(x);
  return std::string(number < names.size() ? names[number] : "unknown");
}

bool from_string(caf::string_view text, errc& x) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (std::string_view(text.data(), text.size()) == names[i]) {
      x = static_cast<errc>(i);
      return true;
    }
  }
  return false;
}

bool from_integer(std::uint8_t number, errc& x) {
  if (number >= names.size()) return false;
  x = static_cast<errc>(number);
  return true;
}

caf::error make_failure(errc code, std::string context) { return caf::make_error(code, std::move(context)); }

std::string describe(const caf::error& error) {
  if (error && error.category() == caf::type_id_v<errc> && error.context().match_elements<std::string>())
    return for_this_program(error.context().get_as<std::string>(0));
  // CAF has a code for each way in which a receiver can end.
  if (is_secondary(error) || error == caf::sec::disconnect_during_handshake)
    return "the receiver has ended before it answered";
  return meaning_of(error);
}

bool is_secondary(const caf::error& error) {
  return error == caf::sec::request_receiver_down || error == caf::sec::broken_promise || error == errc::peer_failed ||
         error == caf::exit_reason::remote_link_unreachable;
}

bool is_transient(const caf::error& error) {
  return is_secondary(error) || error == errc::timeout || error == errc::malformed || error == errc::device_failed;
}

}  // namespace troupe::protocol
