#include "actors/replay_key.hpp"

#include <caf/type_id.hpp>

#include "protocol/type_ids.hpp"

namespace troupe {

replay_key replay_key_of(std::uint32_t receiver, const header& head, std::uint16_t type, std::uint16_t aux) {
  const bool has_bucket = type == caf::type_id_v<reduce> || type == caf::type_id_v<reduced>;
  return {static_cast<std::uint16_t>(receiver), static_cast<std::uint16_t>(head.sender), type,
          has_bucket ? aux : std::uint16_t{0}, head.step};
}

}  // namespace troupe
