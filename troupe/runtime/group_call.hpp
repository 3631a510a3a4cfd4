// One call of a collective, as one of the group's members sees it: what it gives each of the others, and the result of
// what they have given. It uses no messages, clock or threads; communicator.cpp drives it.
//
// Each member gives each other one a share. What is reduced, and the states, are those of an `ordered_sum`, in which
// each member is a process of its own; other calls wait for all shares, and have no sum. A meeting gathers tensors as
// all_gather does. Members who give no numbers may have other words than the rest.
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

#include "actors/ordered_sum.hpp"
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

/// What a trainer calls. `root`: its rank in the group.
struct call_order {
  collective_kind kind = collective_kind::barrier;
  reduce_op how = reduce_op::sum;
  std::uint32_t root = 0;
  tensor input = {};               ///< null where the call needs none of this trainer
  std::vector<tensor> parts = {};  ///< of the root of a scatter
  std::string words = {};          ///< of a meeting
};

/// Numbers on their way between trainers. Empty lengths and numbers: none.
struct given_numbers {
  std::vector<std::uint64_t> lengths = {};
  msg::tensor numbers = {};
};

/// Shares the numbers of `x`.
given_numbers numbers_of(const tensor& x);
/// Returns the tensor that was given; none if it is no tensor of the library. Shares the memory.
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
  /// What a member has called, the same text for all that call the same, and where in its code.
  struct called {
    std::string words;
    std::string place;
  };
  /// Requires: that member has called.
  const called& call_of(std::uint32_t member) const { return shares_[member]->call; }

  /// Requires: there is no share of this member.
  void add_share(std::uint32_t member, called call, given_numbers given);

  /// This trainer calls.
  void call(call_order what, called call);
  /// What this trainer gives another member. `keeps`: the receiver gets the memory itself, as it is in this process.
  given_numbers share_for(std::uint32_t member, bool keeps);

  /// Returns a member that has called something else; in a meeting, one who gives numbers, as this one does.
  std::optional<std::uint32_t> disagreeing() const;
  bool has_all_shares() const {
    return std::ranges::all_of(shares_, [](const auto& one) { return one.has_value(); });
  }
  /// Computes the result, or this member's slice of it. Returns false if a share is not what such a call has.
  /// Requires: all shares are there, and nobody disagrees.
  bool finish();
  /// After `finish`: the sum that goes to all other members, if there is one.
  const std::optional<msg::tensor>& sum() const { return slice_; }
  /// Returns false if this sum is not due.
  bool add_sum(std::uint32_t member, const msg::tensor& numbers);

  /// Requires: reduced.
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
  bool stands_by(std::uint32_t member) const;
  const tensor& tensor_for(std::uint32_t member) const;
  msg::tensor part_of_input(const actors::sum_slice& which, bool is_copied);
  actors::share_of_rank summand_of(std::uint32_t member) const;
  void reduce();
  bool take_given();

  const actors::rank_layout& members_;
  call_order order_;
  std::vector<std::optional<share>> shares_;  ///< by member; of this one, no numbers
  actors::ordered_sum sum_;
  bool owns_input_ = false;  ///< it is a copy
  std::optional<msg::tensor> slice_;
  std::vector<tensor> results_;
};

}  // namespace troupe::runtime
