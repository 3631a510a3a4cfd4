// One call of a collective, as one of the group's members sees it: what it gives each of the others, and the result of
// what they have given. It uses no messages, clock or threads; communicator.cpp drives it.
//
// Each member gives each other one a share. Small tensors that are reduced everywhere go whole to every member, and
// each reduces all of them. Larger ones are cut into one slice for each member, which reduces that slice and sends the
// others its sum (as buckets of gradients: actors/ordered_sum.hpp has a drawing).
//
// A meeting gathers tensors as all_gather does. Members who give no numbers may have other words than the rest.
//
//   open        shares of others may have come        `call`                             -> called
//   called      this trainer has called, too          `has_all_shares`, then `finish`    -> exchanging or over
//   exchanging  sums of other members are missing     `add_sum`, the last one            -> over

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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
  enum class state : std::uint8_t { open, called, exchanging, over };

  group_call(std::uint32_t members, std::uint32_t me) : me_(me), shares_(members), has_sum_(members) {}

  state now() const { return state_; }
  bool is_meeting() const { return order_.kind == collective_kind::meeting; }
  bool has_share(std::uint32_t member) const { return member == me_ || shares_[member].has_value(); }
  bool lacks_sum(std::uint32_t member) const {
    return state_ == state::exchanging && member != me_ && !has_sum_[member];
  }
  /// What that member has called. Requires: it has.
  const std::string& words_of(std::uint32_t member) const { return member == me_ ? words_ : shares_[member]->words; }

  /// Requires: there is no share of this member.
  void add_share(std::uint32_t member, std::string words, given_numbers given);

  /// This trainer calls. `words`: what, for comparison with the others.
  void call(call_order what, std::string words);
  /// What this trainer gives another member. `keeps`: the receiver gets the memory itself, as it is in this process.
  given_numbers share_for(std::uint32_t member, bool keeps);

  /// Returns a member that has called something else; in a meeting, one who gives numbers, as this one does.
  std::optional<std::uint32_t> disagreeing() const;
  bool has_all_shares() const { return arrived_ + 1 == shares_.size(); }
  /// Computes the result, or this member's slice of it. Returns false if a share is not what such a call has.
  /// Requires: all shares are there, and nobody disagrees.
  bool finish();
  /// After `finish`: the sum that goes to all other members, if there is one.
  const std::optional<msg::tensor>& sum() const { return sum_; }
  /// Returns false if this sum is not due.
  bool add_sum(std::uint32_t member, const msg::tensor& numbers);

  /// Requires: over.
  std::vector<tensor> take_results() { return std::move(results_); }

 private:
  struct share {
    std::string words;
    given_numbers given;
  };
  struct slice {
    std::size_t first = 0;
    std::size_t count = 0;
  };

  bool stands_by(const share& other) const;
  std::uint32_t members() const { return static_cast<std::uint32_t>(shares_.size()); }
  bool goes_in_slices() const;
  slice slice_of(std::uint32_t member) const;
  msg::tensor part_of_input(slice which, bool copied);
  bool reduce();
  bool gather();
  bool take_from_root();

  state state_ = state::open;
  std::uint32_t me_;
  call_order order_;
  std::string words_;
  std::vector<std::optional<share>> shares_;  ///< by member; none of this one
  std::size_t arrived_ = 0;
  std::optional<msg::tensor> copy_;  ///< of the whole input, as others read it
  std::optional<msg::tensor> sum_;
  std::vector<bool> has_sum_;  ///< by member
  std::size_t sums_ = 0;
  std::vector<tensor> results_;
};

}  // namespace troupe::runtime
