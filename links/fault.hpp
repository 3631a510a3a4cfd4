// Why a link could not be made, or is no more: as values.

#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace troupe {

enum class link_errc {
  bad_setting,    ///< an address, token or certificate of this side is wrong
  unreachable,    ///< nobody answers there (yet): worth another try
  no_peer,        ///< who answers speaks something else, or another version of the handshake
  refused,        ///< the other side gave its reason
  not_trusted,    ///< wrong token, or a certificate that is missing, expired or of another authority
  lost,           ///< an established link has ended
  address_in_use  ///< somebody else listens there
};

/// One line for the user: the thing, its value, what to try.
struct link_fault {
  link_errc code = link_errc::lost;
  std::string message;
};

template <class T>
using link_result = tl::expected<T, link_fault>;

inline tl::unexpected<link_fault> link_failed(link_errc code, std::string message) {
  return tl::unexpected<link_fault>(link_fault{code, std::move(message)});
}

}  // namespace troupe
