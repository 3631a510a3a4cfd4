// Which messages a recorded run handled and in which order, as another run of the same job can be held to it.

#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "model/job.hpp"
#include "protocol/header.hpp"
#include "trace/recording.hpp"

namespace troupe {

/// By what a message of one run is found again in another. Two with the same key are told apart by their order, which
/// is that in which they were sent. Actors as they are numbered in a run in one process, whatever the run was spread
/// over.
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

struct expected_message {
  replay_key key;
  message_id id = 0;                     ///< in the recording
  const trace::content* held = nullptr;  ///< null: not recorded
};

struct replay_order {
  std::vector<setting> job;
  /// Trainers and servers were in different processes, between which tables travel in other forms.
  bool is_remote = false;
  /// The run came to its job's end, and all of that is recorded.
  bool is_whole = false;
  std::string weights_digest;  ///< empty: the run did not come to its end
  /// What each actor handled of the messages that training consists of, in its order: lookups, rows, gradients, norms,
  /// optimizer steps and buckets. Contents are those of the recording, which must outlive this.
  std::map<std::uint16_t, std::vector<expected_message>> by_receiver;
};

/// Errors, a line for the user: the recording lacks the job, or messages; the run went on from a checkpoint; it had not
/// begun to train.
tl::expected<replay_order, std::string> read_replay_order(const trace::recording& from);

}  // namespace troupe
