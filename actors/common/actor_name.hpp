// The numbers and names of a run's actors.

#pragma once

#include <cstdint>

namespace troupe::actors {

/// Actor numbers within a run, as in message headers: master 0, allreduce group 1, then servers, then trainers.
constexpr std::uint32_t master_number = 0;
constexpr std::uint32_t group_number = 1;
/// The number of process `process`'s allreduce group in a run where several processes have trainers.
constexpr std::uint32_t group_sender(std::uint32_t process) { return 0x8000 + process; }
constexpr std::uint32_t server_number(std::uint32_t rank) { return 2 + rank; }
constexpr std::uint32_t trainer_number(std::uint32_t rank, std::uint32_t servers) { return 2 + servers + rank; }
/// The number of process `node` in a run of several processes.
constexpr std::uint32_t node_number(std::uint32_t node) { return 0xfffe - node; }
/// The number of the client that submits a run.
constexpr std::uint32_t client_number = 0xffff;

}  // namespace troupe::actors
