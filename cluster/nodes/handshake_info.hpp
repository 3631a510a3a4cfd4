// How a process introduces itself on its control connection, and what must match on both sides: the version, the form
// of each message, and the instruction set, which decides the bits of results.

#pragma once

#include <string>

#include "cluster/links/hello.hpp"

namespace troupe::nodes {

/// `purpose`: the connection's purpose, as text. `session`: a unique name of the connection.
links::hello handshake_info(const std::string& purpose, const std::string& session);

}  // namespace troupe::nodes
