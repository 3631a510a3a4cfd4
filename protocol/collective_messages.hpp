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

  static constexpr message_traits traits{.via = plane::data, .replayed = true};
};
BOOST_DESCRIBE_STRUCT(collective_share, (), (head, rank, members, instance, number, call, lengths, numbers))

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

  static constexpr message_traits traits{.via = plane::data, .replayed = true};
};
BOOST_DESCRIBE_STRUCT(peer_tensor, (), (head, rank, members, instance, tag, lengths, numbers))

/// The sender's trainer function has returned: it calls nothing more. It comes behind all that the sender has sent.
struct peer_ended {
  header head;
  std::uint32_t rank = 0;
  std::uint64_t steps = 0;     ///< its optimizer steps
  std::uint64_t received = 0;  ///< the number of the receiver's tensors that it has taken

  static constexpr message_traits traits{.via = plane::data, .diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(peer_ended, (), (head, rank, steps, received))

/// A trainer of a user's program, as the other ones see it.
using peer_actor = caf::typed_actor<caf::result<void>(collective_share), caf::result<void>(collective_sum),
                                    caf::result<void>(peer_tensor), caf::result<void>(peer_ended)>;

}  // namespace troupe::msg
