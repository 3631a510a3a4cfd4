// Which messages a recorded run handled and in which order, as another run of the same job can be held to it.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/compute_devices.hpp"
#include "actors/replay_key.hpp"
#include "base/result.hpp"
#include "model/job.hpp"
#include "trace/recording.hpp"

namespace troupe::replay {

struct expected_message {
  actors::replay_key key;
  msg::message_id id = 0;                ///< in the recording
  const trace::content* held = nullptr;  ///< null: not recorded
};

struct replay_order {
  model::job what;
  std::string data_digest;  ///< of its rows; empty: not recorded
  /// Trainers and servers were in different processes, between which tables travel in other forms.
  bool is_remote = false;
  /// What the run computed on.
  actors::device_request devices;
  /// The run came to its job's end, and all of that is recorded.
  bool is_whole = false;
  std::string weights_digest;  ///< empty: the run did not come to its end
  /// What each actor handled of the messages that training consists of, in its order: lookups, rows, gradients, norms,
  /// optimizer steps and buckets. Contents are those of the recording, which must outlive this.
  std::map<std::uint16_t, std::vector<expected_message>> by_receiver;
};

/// What the recorded run computed on; what is not told, on the processor.
actors::device_request devices_in(const trace::recording& of);

/// Errors, a line for the user: the recording lacks the job, or messages; the run went on from a checkpoint; it had not
/// begun to train.
result<replay_order> read_replay_order(const trace::recording& from);

}  // namespace troupe::replay
