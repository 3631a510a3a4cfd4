// How a message travels over a data link: as one frame body whose bulk bytes stay where they are when it is sent, and
// are pointed at where they lie when it has come.
//
//   0   u64  request: the answer names it; 0: none
//   8   u32  the number of the actor that the message is for; in an answer, of the one that answers
//   12  u16  type: the message's type id, part of the schema that both sides have compared
//   14  u16  0
//   16  u32  bytes of the fields
//   20  u32  number of blobs
//   24  u64  size of each blob
//       the fields, in the order of their description, as field_bytes.hpp writes them; a blob is nothing
//       each blob, at the next multiple of 64 bytes
//
// All numbers are little-endian.

#pragma once

#include <caf/expected.hpp>
#include <caf/message.hpp>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "protocol/blob.hpp"
#include "protocol/header.hpp"

namespace troupe::protocol {

/// Where a message belongs on a link.
struct envelope {
  std::uint64_t request = 0;
  std::uint32_t actor = 0;
};

/// The parts of the frame body for `content`, a single message of the types that travel over data links. Null for
/// another type: it belongs on the control connection.
std::optional<std::vector<msg::blob>> to_frame(const envelope& head, const caf::message& content);

/// The message in a frame body; its blobs share `memory`. Whatever the bytes are, nothing beyond them is read, and
/// nothing is allocated that they do not account for.
caf::expected<std::pair<envelope, caf::message>> from_frame(const msg::blob& body);

/// Type and header of a message that travels over data links.
std::optional<std::pair<caf::type_id_t, msg::header>> head_of(const caf::message& content);

/// An actor's refusal as an answer, and back; errors of other kinds become errc::exception with the same words.
std::vector<msg::blob> to_failure_frame(const envelope& head, const caf::error& failure);
caf::expected<std::pair<envelope, caf::error>> from_failure_frame(const msg::blob& body);

}  // namespace troupe::protocol
