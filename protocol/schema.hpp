// The message layouts of this build, so that two processes can check that they agree.

#pragma once

#include <string>
#include <utility>
#include <vector>

namespace troupe::protocol {

/// For each message type, sorted by its number on the wire: its name, and its fields in order with the kinds of their
/// values, e.g. `{head:{run:u64,...},rank:u32}`. Requires: the types are registered with CAF (initialize_types).
std::vector<std::pair<std::string, std::string>> message_schema();

}  // namespace troupe::protocol
