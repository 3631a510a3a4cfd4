// By what a message of one run is found again in another.

#pragma once

#include <compare>
#include <cstdint>

#include "protocol/header.hpp"
#include "protocol/type_ids.hpp"

namespace troupe::actors {

/// Messages with the same key are told apart by their order, which is that in which they were sent. Actors are numbered
/// as in a run in one process, whatever the run was spread over.
struct replay_key {
  std::uint16_t receiver = 0;
  std::uint16_t sender = 0;
  std::uint16_t type = 0;    ///< as this program numbers them
  std::uint16_t bucket = 0;  ///< of messages of which there is one for each bucket
  std::uint64_t step = 0;

  auto operator<=>(const replay_key&) const = default;
};

/// The key of a message that `receiver` handles.
replay_key replay_key_of(std::uint32_t receiver, const msg::header& head, std::uint16_t type, std::uint16_t aux);

}  // namespace troupe::actors
