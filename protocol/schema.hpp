// What the messages of this build look like, so that two processes can tell whether they mean the same by them.

#pragma once

#include <string>
#include <utility>
#include <vector>

namespace troupe::protocol {

/// For each message type, in the order of their numbers on the wire: its name, and its fields in order with the kinds
/// of their values, as in `{head:{run:u64,...},rank:u32}`. The types' meta objects must have been made known to CAF.
std::vector<std::pair<std::string, std::string>> message_schema();

}  // namespace troupe::protocol
