// Which trainers a run has: the program's, or those of a user's program.

#pragma once

#include <caf/actor_system.hpp>
#include <cstdint>
#include <functional>

#include "protocol/messages.hpp"

namespace troupe::actors {

/// Spawns trainer `rank` of run `run`, which has so many servers. Thread: any.
using trainer_maker = std::function<msg::trainer_actor(caf::actor_system& system, std::uint64_t run, std::uint32_t rank,
                                                       std::uint32_t servers)>;

}  // namespace troupe::actors
