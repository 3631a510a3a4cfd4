// By what a message of one run is found again in another.

#pragma once

#include <compare>
#include <cstdint>

#include "protocol/header.hpp"
#include "protocol/type_ids.hpp"

namespace troupe {

/// Whether servers must handle messages of this type in the order of another run.
constexpr bool is_ordered(std::uint16_t type) {
  return type == caf::type_id_v<lookup> || type == caf::type_id_v<gradient> || type == caf::type_id_v<gradient_norm> ||
         type == caf::type_id_v<optimizer_step>;
}

/// Whether there is one for each rank and bucket of a step.
constexpr bool has_bucket(std::uint16_t type) {
  return type == caf::type_id_v<reduce> || type == caf::type_id_v<reduced>;
}

/// Whether messages of this type are compared with those of another run: all that training consists of.
constexpr bool is_replayed(std::uint16_t type) {
  return is_ordered(type) || has_bucket(type) || type == caf::type_id_v<rows> || type == caf::type_id_v<squared_norm>;
}

/// Messages with the same key are told apart by their order, which is that in which they were sent. Actors are numbered
/// as in a run in one process, whatever the run was spread over.
struct replay_key {
  std::uint16_t receiver = 0;
  std::uint16_t sender = 0;
  std::uint16_t type = 0;    ///< as this program numbers them
  std::uint16_t bucket = 0;  ///< of `reduce` and `reduced`
  std::uint64_t step = 0;

  auto operator<=>(const replay_key&) const = default;
};

/// The key of a message that `receiver` handles.
replay_key replay_key_of(std::uint32_t receiver, const header& head, std::uint16_t type, std::uint16_t aux);

}  // namespace troupe
