// How a process introduces itself on its control connection, and what must match on both sides: the version, the form
// of each message, and the instruction set, which decides the bits of results.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "links/hello.hpp"

namespace troupe::nodes {

/// Items from this one on must match on both sides.
constexpr std::string_view first_common_item = "version";

/// `purpose`: what the connection is for. `session`: a unique name of the connection.
links::hello handshake_info(const std::string& purpose, const std::string& session);

/// Returns the first item that must match and does not, with its value on both sides; null if all match. `their_name`:
/// whose `theirs` is, as in `the master`.
std::optional<std::string> first_disagreement(const links::hello& mine, const links::hello& theirs,
                                              const std::string& their_name);

}  // namespace troupe::nodes
