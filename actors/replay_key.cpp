#include "actors/replay_key.hpp"

#include "protocol/message_types.hpp"

namespace troupe::actors {

replay_key replay_key_of(std::uint32_t receiver, const msg::header& head, std::uint16_t type, std::uint16_t aux) {
  return {static_cast<std::uint16_t>(receiver), static_cast<std::uint16_t>(head.sender), type,
          protocol::traits_by_id(type).by_bucket ? aux : std::uint16_t{0}, head.step};
}

}  // namespace troupe::actors
