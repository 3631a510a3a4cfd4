// One call of a collective, for one member of the group: computes the shares for the other members, and the result from
// theirs. It uses no messages, clock or threads; communicator.cpp drives it.
//
// Each member gives each other member a share. The reduction and the states are those of an `ordered_sum` in which each
// member is its own process; other calls wait for all shares, and have no sum. A meeting gathers tensors as all_gather
// does. Members without numbers in a meeting may call with another text than the rest.
//
//   idle        shares of others may have come        `call`                  -> collecting
//   collecting  this trainer has called, too          `finish`, on all shares -> exchanging or reduced
//   exchanging  sums of other members are missing     `add_sum`, the last one -> reduced

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/collective/ordered_sum.hpp"
#include "protocol/tensor.hpp"
#include "troupe/group.hpp"
#include "troupe/tensor.hpp"

namespace troupe::runtime {

enum class collective_kind : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  gather,
  scatter,
  barrier,
  meeting
};

/// A trainer's call. `root`: its rank in the group.
struct call_order {
  collective_kind kind = collective_kind::barrier;
  reduce_op how = reduce_op::sum;
  std::uint32_t root = 0;
  tensor input = {};               ///< null if the call needs no input of this trainer
  std::vector<tensor> parts = {};  ///< at the root of a scatter
  std::string text = {};           ///< of a meeting
};

/// Numbers sent between trainers. Without numbers, both are empty.
struct given_numbers {
  std::vector<std::uint64_t> lengths = {};
  msg::tensor numbers = {};
};

/// Shares the numbers of `x`.
given_numbers numbers_of(const tensor& x);
/// Returns the tensor that was sent; none if it is not a valid tensor. Shares the memory.
std::optional<tensor> tensor_of(const given_numbers& given);
/// Copies a tensor.
tensor clone_of(const tensor& x);

/// Belongs to a trainer.
class group_call {
 public:
  using state = actors::ordered_sum::state;

  /// Requires: `members` outlives the call.
  explicit group_call(const actors::rank_layout& members) : members_(members), shares_(members.ranks()) {}

  state now() const { return sum_.now(); }
  bool is_called() const { return now() != state::idle; }
  bool is_meeting() const { return order_.kind == collective_kind::meeting; }
  bool has_share(std::uint32_t member) const { return shares_[member].has_value(); }
  bool lacks_sum(std::uint32_t member) const { return sum_.lacks_sum(member); }
  /// A member's call: a text, equal for all that make the same call, and its location in the code.
  struct called {
    std::string text;
    std::string place;
  };
  /// Requires: that member has called.
  const called& call_of(std::uint32_t member) const { return shares_[member]->call; }

  /// Requires: there is no share of this member yet.
  void add_share(std::uint32_t member, called call, given_numbers given);

  /// Makes this trainer's call.
  void call(call_order what, called call);
  /// Returns this trainer's share for another member. `keeps`: the receiver is in this process and keeps the memory.
  given_numbers share_for(std::uint32_t member, bool keeps);

  /// Returns a member with a different call; in a meeting, only a member with numbers, if this one has some.
  std::optional<std::uint32_t> disagreeing() const;
  bool has_all_shares() const {
    return std::ranges::all_of(shares_, [](const auto& one) { return one.has_value(); });
  }
  /// Computes the result, or this member's slice of it. Returns false if a share does not fit the call. Requires: all
  /// shares are there, and no member disagrees.
  bool finish();
  /// After `finish`: the sum to send to all other members, if there is one.
  const std::optional<msg::tensor>& sum() const { return slice_; }
  /// Returns false if this sum is not expected.
  bool add_sum(std::uint32_t member, const msg::tensor& numbers);

  /// Requires: the call is reduced.
  std::vector<tensor> take_results() { return std::move(results_); }

 private:
  struct share {
    called call;
    given_numbers given;
  };

  bool reduces() const {
    return order_.kind == collective_kind::all_reduce || order_.kind == collective_kind::reduce_scatter;
  }
  bool gives(std::uint32_t from, std::uint32_t to) const;
  bool is_idle(std::uint32_t member) const;
  const tensor& tensor_for(std::uint32_t member) const;
  msg::tensor part_of_input(const actors::sum_slice& which, bool is_copied);
  actors::share_of_rank summand_of(std::uint32_t member) const;
  void reduce();
  bool take_given();

  const actors::rank_layout& members_;
  call_order order_;
  std::vector<std::optional<share>> shares_;  ///< by member; this one's has no numbers
  actors::ordered_sum sum_;
  bool owns_input_ = false;  ///< the input is a copy
  std::optional<msg::tensor> slice_;
  std::vector<tensor> results_;
};

}  // namespace troupe::runtime
