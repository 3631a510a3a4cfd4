// How a message travels over a data link: as one frame body. Sending does not copy the bulk bytes, and the received
// message refers to them in place.
//
//   0   u64  request: the answer names it; 0: none
//   8   u32  the number of the actor that the message is for; in an answer, of the one that answers
//   12  u16  type: the message's type id, part of the schema that both sides have compared
//   14  u16  0
//   16  u32  bytes of the fields
//   20  u32  number of entries
//   24  u64  each entry: its kind in the highest two bits (`blob_entry`), its width in the next four, its value in the
//            others. For each blob
//              0: its size
//              1: its size; the next u64 is the number under which the receiver keeps it
//              2: the number of a blob that the receiver keeps
//            and after those
//              3: the number of a blob that the receiver drops
//            A width of 2, 3 or 4: only the lowest `width` bytes of each 64-bit word of the blob travel; the others are
//            zero. The size counts whole words
//       the fields, in the order of their description, as field_bytes.hpp writes them; a blob has no bytes there
//       each blob of kinds 0 and 1, at the next multiple of 64 bytes
//
// All numbers are little-endian.

#pragma once

#include <caf/expected.hpp>
#include <caf/message.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "protocol/blob.hpp"
#include "protocol/header.hpp"
#include "protocol/repeated_blobs.hpp"

namespace troupe::protocol {

/// The request and the actor that a message on a link belongs to.
struct envelope {
  std::uint64_t request = 0;
  std::uint32_t actor = 0;
};

/// How frames are written for one receiver.
struct frame_rules {
  /// The blobs that the receiver keeps; null: each frame can be read alone.
  sent_blobs* sent = nullptr;
  /// Leave out zero bytes of 64-bit words (protocol/narrow_words.hpp), if sending bytes costs more than searching for
  /// them.
  bool narrows = false;
  /// The caller may drop longer bodies: `sent` does not count their blobs as kept.
  std::uint64_t bytes_max = std::numeric_limits<std::uint64_t>::max();
};

/// Returns the parts of the frame body for `content`, a single message of a type that travels over data links. Returns
/// nullopt for any other type: those use the control connection. A part without bytes holds the owner of a blob, and
/// must live until the frame is sent.
std::optional<std::vector<msg::blob>> to_frame(const envelope& head, const caf::message& content,
                                               const frame_rules& rules = {});

/// Returns the message in a frame body; its blobs share `body` or kept blobs, or are widened from narrow words. Never
/// reads beyond the given bytes, whatever they are, and allocates in proportion to them. `kept`: the blobs that the
/// sender knows to be here; null: none may be kept.
caf::expected<std::pair<envelope, caf::message>> from_frame(const msg::blob& body, kept_blobs* kept = nullptr);

/// Returns the type and header of a message that travels over data links; nullopt for any other.
std::optional<std::pair<caf::type_id_t, msg::header>> head_of(const caf::message& content);

/// Converts an actor's error to an answer frame and back. Errors of other categories become errc::exception with the
/// same text.
std::vector<msg::blob> to_failure_frame(const envelope& head, const caf::error& failure);
caf::expected<std::pair<envelope, caf::error>> from_failure_frame(const msg::blob& body);

}  // namespace troupe::protocol
