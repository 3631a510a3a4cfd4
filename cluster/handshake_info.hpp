// How a process introduces itself on its control connection, and what makes two of them fit together: the version of
// the code, the form of each message, and the instruction set, on which the bits of results depend.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "links/hello.hpp"

namespace troupe::cluster {

/// Items from this one on are the same on both sides.
constexpr std::string_view first_common_item = "version";

/// `purpose` says what the connection is for; `session` is a name for it that no other has.
links::hello handshake_info(const std::string& purpose, const std::string& session);

/// The first item that has to agree and does not, named with what it is on both sides; null if all agree. `their_name`
/// is whom `theirs` are of, as in `the master`.
std::optional<std::string> first_disagreement(const links::hello& mine, const links::hello& theirs,
                                              const std::string& their_name);

}  // namespace troupe::cluster
