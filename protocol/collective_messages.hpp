// Messages between the trainers of users' programs: the collectives of a group, and what one sends another.
//
// A group is named by its members, trainers' ranks in the order of their ranks in it, and by which one of the groups of
// these members it is.

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

/// A trainer calls a collective, and gives the receiver what it needs for that. All members get one from each other.
struct collective_share {
  header head;
  std::uint32_t rank = 0;  ///< of the sending trainer in the run
  std::vector<std::uint32_t> members;
  std::uint32_t instance = 0;
  /// Counts the sender's calls in the group, from 1.
  std::uint64_t number = 0;
  /// What is called, in words; all members call the same: "all_reduce sum [4] of float32".
  std::string call;
  std::vector<std::uint64_t> lengths;  ///< of `numbers`, as a tensor of the user's
  tensor numbers;                      ///< a column; empty: nothing but the call
  std::string place = {};              ///< of the call in the user's code: "train.cpp:14"; empty: the library's own

  static constexpr message_traits traits{.via = plane::data, .replayed = true, .untold = 1};
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

/// Brings a tensor to one other trainer, which receives those of a sender and a tag in the order of their sending.
struct peer_tensor {
  header head;
  std::uint32_t rank = 0;
  std::vector<std::uint32_t> members;
  std::uint32_t instance = 0;
  std::uint32_t tag = 0;
  std::vector<std::uint64_t> lengths;
  tensor numbers;
  std::string place = {};  ///< as that of a `collective_share`

  static constexpr message_traits traits{.via = plane::data, .replayed = true, .untold = 1};
};
BOOST_DESCRIBE_STRUCT(peer_tensor, (), (head, rank, members, instance, tag, lengths, numbers, place))

/// The sender's trainer function has returned: it calls nothing more. It comes behind all that the sender has sent.
struct peer_ended {
  header head;
  std::uint32_t rank = 0;
  std::uint64_t steps = 0;     ///< its optimizer steps
  std::uint64_t received = 0;  ///< the number of the receiver's tensors that it has taken

  static constexpr message_traits traits{.via = plane::data, .diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(peer_ended, (), (head, rank, steps, received))

/// What the function of a trainer waits for.
struct peer_wait {
  /// For what: see `owes` in troupe/runtime/communicator_waits.cpp.
  static constexpr std::uint32_t for_call = 0;
  static constexpr std::uint32_t for_tensor = 1;
  static constexpr std::uint32_t for_step = 2;

  std::uint32_t rank = 0;  ///< of the trainer
  std::uint32_t kind = for_call;
  std::vector<std::uint32_t> members;  ///< of the call's group
  std::uint32_t instance = 0;          ///< likewise
  /// The number of the call in its group, of tensors that have come from that trainer, or of the optimizer step.
  std::uint64_t number = 0;
  std::string words;  ///< "trainer 0 calls barrier (train.cpp:14) as its 1st collective"

  bool operator==(const peer_wait&) const = default;
};
BOOST_DESCRIBE_STRUCT(peer_wait, (), (rank, kind, members, instance, number, words))

/// Asks whether the receiver, for which the sender waits, waits itself for the trainer that has begun the probe.
struct wait_probe {
  header head;
  std::uint32_t rank = 0;       ///< of the sender
  std::uint64_t number = 0;     ///< counts the probes of the trainer that has begun it
  std::vector<peer_wait> path;  ///< from that trainer to the sender, each waiting for the next one

  static constexpr message_traits traits{.via = plane::data, .diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(wait_probe, (), (head, rank, number, path))

/// Says with what the sender takes an optimizer step, if it has not taken one with that before.
struct peer_optimizer {
  header head;
  std::uint32_t rank = 0;  ///< of the sender
  std::uint64_t step = 0;
  std::string optimizer;  ///< what of the replicas of all trainers it trains, and how
  std::string place;      ///< of the step in the user's code

  static constexpr message_traits traits{.via = plane::data, .diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(peer_optimizer, (), (head, rank, step, optimizer, place))

/// A trainer of a user's program, as the other ones see it.
using peer_actor = caf::typed_actor<caf::result<void>(collective_share), caf::result<void>(collective_sum),
                                    caf::result<void>(peer_tensor), caf::result<void>(peer_ended),
                                    caf::result<void>(wait_probe), caf::result<void>(peer_optimizer)>;

}  // namespace troupe::msg
