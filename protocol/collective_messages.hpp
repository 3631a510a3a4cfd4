// Messages between the trainers of users' programs: the collectives of a group, and tensors from one trainer to
// another.
//
// A group is identified by its members, trainers' ranks in the order of their ranks in the group, and by a number among
// the groups of these members (`instance`).

#pragma once

#include <caf/typed_actor.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/describe.hpp"
#include "protocol/header.hpp"
#include "protocol/tensor.hpp"
#include "protocol/type_ids.hpp"

namespace troupe::msg {

/// A trainer calls a collective, and sends the receiver its data for it. Each member gets one from every other member.
struct collective_share {
  header head;
  std::uint32_t rank = 0;  ///< the sending trainer's rank in the run
  std::vector<std::uint32_t> members;
  std::uint32_t instance = 0;
  /// Counts the sender's calls in the group, from 1.
  std::uint64_t number = 0;
  /// Describes the call, which must be the same for all members: "all_reduce sum [4] of float32".
  std::string call;
  std::vector<std::uint64_t> lengths;  ///< the dimensions of `numbers` as the user's tensor
  tensor numbers;                      ///< a column; empty: only the call
  std::string place = {};              ///< position in the user's code: "train.cpp:14"; empty: the library's own

  static constexpr message_traits traits{.via = plane::data, .replayed = true, .unrecorded = 1};
};
BOOST_DESCRIBE_STRUCT(collective_share, (), (head, rank, members, instance, number, call, lengths, numbers, place))

/// The slice of a reduction that the sending trainer computes for all members.
struct collective_sum {
  header head;
  std::uint32_t rank = 0;
  std::vector<std::uint32_t> members;
  std::uint32_t instance = 0;
  std::uint64_t number = 0;
  tensor numbers;

  static constexpr message_traits traits{.via = plane::data};
};
BOOST_DESCRIBE_STRUCT(collective_sum, (), (head, rank, members, instance, number, numbers))

/// Sends a tensor to one other trainer, which receives the tensors of one sender and tag in the order of sending.
struct peer_tensor {
  header head;
  std::uint32_t rank = 0;
  std::vector<std::uint32_t> members;
  std::uint32_t instance = 0;
  std::uint32_t tag = 0;
  std::vector<std::uint64_t> lengths;
  tensor numbers;
  std::string place = {};  ///< as in `collective_share`

  static constexpr message_traits traits{.via = plane::data, .replayed = true, .unrecorded = 1};
};
BOOST_DESCRIBE_STRUCT(peer_tensor, (), (head, rank, members, instance, tag, lengths, numbers, place))

/// The sender's trainer function has returned: it calls nothing more. Sent after all other messages of the sender.
struct peer_ended {
  header head;
  std::uint32_t rank = 0;
  std::uint64_t steps = 0;     ///< its optimizer steps
  std::uint64_t received = 0;  ///< the number of the receiver's tensors that it has received

  static constexpr message_traits traits{.via = plane::data, .diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(peer_ended, (), (head, rank, steps, received))

/// What a trainer's function waits for.
struct peer_wait {
  /// What is awaited: see `owes` in troupe/runtime/communicator_waits.cpp.
  static constexpr std::uint32_t for_call = 0;
  static constexpr std::uint32_t for_tensor = 1;
  static constexpr std::uint32_t for_step = 2;

  std::uint32_t rank = 0;  ///< the trainer's rank
  std::uint32_t kind = for_call;
  std::vector<std::uint32_t> members;  ///< of the call's group
  std::uint32_t instance = 0;          ///< the instance of the call's group
  /// The number of the call in its group, of tensors received from that trainer, or of the optimizer step.
  std::uint64_t number = 0;
  std::string words;  ///< "trainer 0 calls barrier (train.cpp:14) as its 1st collective"

  bool operator==(const peer_wait&) const = default;
};
BOOST_DESCRIBE_STRUCT(peer_wait, (), (rank, kind, members, instance, number, words))

/// Asks whether the receiver, for which the sender waits, itself waits for the trainer that has begun the probe.
struct wait_probe {
  header head;
  std::uint32_t rank = 0;       ///< the sender's
  std::uint64_t number = 0;     ///< counts the probes of the trainer that began this one
  std::vector<peer_wait> path;  ///< from that trainer to the sender, each waiting for the next one

  static constexpr message_traits traits{.via = plane::data, .diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(wait_probe, (), (head, rank, number, path))

/// Describes the sender's next optimizer step, if it has not taken a step with this optimizer before.
struct peer_optimizer {
  header head;
  std::uint32_t rank = 0;  ///< the sender's
  std::uint64_t step = 0;
  std::string optimizer;  ///< which of all trainers' replicas it trains, and how
  std::string place;      ///< the step's position in the user's code

  static constexpr message_traits traits{.via = plane::data, .diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(peer_optimizer, (), (head, rank, step, optimizer, place))

/// A trainer of a user's program, as the other trainers see it.
using peer_actor = caf::typed_actor<caf::result<void>(collective_share), caf::result<void>(collective_sum),
                                    caf::result<void>(peer_tensor), caf::result<void>(peer_ended),
                                    caf::result<void>(wait_probe), caf::result<void>(peer_optimizer)>;

}  // namespace troupe::msg
