// Which messages a recorded run handled, and in which order, for a replay of the same job.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "actors/common/compute_devices.hpp"
#include "actors/common/replay_gate.hpp"
#include "base/result.hpp"
#include "model/job.hpp"
#include "trace/record/recording.hpp"

namespace troupe::replay {

struct expected_message {
  actors::replay_key key;
  msg::message_id id = 0;                ///< in the recording
  const trace::content* held = nullptr;  ///< null: not recorded
};

struct replay_order {
  /// The settings of the job, or of the user's program that ran.
  std::vector<model::setting> settings;
  std::string program;      ///< the program's name; empty: the run was a job of `troupe`
  std::string data_digest;  ///< the data's rows; empty: not recorded
  /// Trainers and servers were in different processes, where tables travel in other formats.
  bool is_remote = false;
  /// Devices of the run.
  actors::device_request devices;
  /// The run completed its job, and all of it is recorded.
  bool is_whole = false;
  std::string weights_digest;  ///< empty: the run did not complete
  /// The training messages (lookups, rows, gradients, norms, optimizer steps, buckets) that each actor handled, in
  /// order. They point into the recording, which must outlive this.
  std::map<std::uint16_t, std::vector<expected_message>> by_receiver;
};

/// Returns the devices of the recorded run; the processor if the recording names none.
actors::device_request devices_in(const trace::recording& of);

/// Whether an actor is a client of a program. Clients observe and call at any time during the run: a replay neither
/// orders their calls nor compares them.
bool is_client(const trace::recording& from, std::uint16_t actor);

/// Faults, a line for the user: the job or messages are not recorded, the run resumed from a checkpoint, or it ended
/// before it trained.
result<replay_order> read_replay_order(const trace::recording& from);

}  // namespace troupe::replay
