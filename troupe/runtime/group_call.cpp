#include "troupe/runtime/group_call.hpp"

#include <span>

#include "base/assert.hpp"
#include "troupe/runtime/rank_reduction.hpp"
#include "troupe/runtime/tensors.hpp"

namespace troupe::runtime {

given_numbers numbers_of(const tensor& x) { return {lengths_of(x.shape()), column_of(x)}; }

std::optional<tensor> tensor_of(const given_numbers& given) { return tensor_of(given.numbers, given.lengths, false); }

tensor clone_of(const tensor& x) { return x.clone(); }

void group_call::add_share(std::uint32_t member, called call, given_numbers given) {
  TROUPE_ASSERT(!has_share(member));
  shares_[member] = {std::move(call), std::move(given)};
}

void group_call::call(call_order what, called call) {
  using actors::share_exchange;
  order_ = std::move(what);
  shares_[members_.me] = {std::move(call), {}};
  const tensor& input = order_.input;
  const std::size_t one = size_of(input.type());
  share_exchange how = share_exchange::announced;
  if (order_.kind == collective_kind::all_reduce)
    how = actors::fastest_exchange(members_.processes, input.count(), one, false);
  if (order_.kind == collective_kind::reduce_scatter) how = share_exchange::parts;
  sum_.begin(members_, {how, reduces() ? input.count() : 0, one});
  if (!reduces()) return;
  const bool is_part = how == share_exchange::parts;
  const shape& lengths = input.shape();
  results_ = {tensor(is_part ? lengths.with_first(lengths[0] / members_.ranks()) : lengths, input.type())};
}

// -- shares for others ---------------------------------------------------------------------

/// Returns whether `from` gives `to` numbers in this call.
bool group_call::gives(std::uint32_t from, std::uint32_t to) const {
  switch (order_.kind) {
    case collective_kind::broadcast:
    case collective_kind::scatter:
      return from == order_.root;
    case collective_kind::gather:
      return to == order_.root;
    case collective_kind::barrier:
      return false;
    default:
      return true;
  }
}

const tensor& group_call::tensor_for(std::uint32_t member) const {
  return order_.kind == collective_kind::scatter ? order_.parts[member] : order_.input;
}

/// `is_copied`: the caller may change its input while others still read the part.
msg::tensor group_call::part_of_input(const actors::sum_slice& which, bool is_copied) {
  if (is_copied && !std::exchange(owns_input_, true)) order_.input = clone_of(order_.input);
  return column_of(order_.input, which.first, which.size);
}

given_numbers group_call::share_for(std::uint32_t member, bool keeps) {
  if (!gives(members_.me, member)) return {};
  // Slices are read before the sums arrive, which this trainer's future waits for.
  if (reduces()) return {{}, part_of_input(sum_.slice_of(member), !sum_.sends_sum(members_.me))};
  if (keeps || order_.kind == collective_kind::scatter) return numbers_of(clone_of(tensor_for(member)));
  return {lengths_of(order_.input.shape()), part_of_input({0, order_.input.count()}, true)};
}

// -- result --------------------------------------------------------------------------------

std::optional<std::uint32_t> group_call::disagreeing() const {
  for (std::uint32_t member = 0; member < shares_.size(); ++member)
    if (has_share(member) && call_of(member).text != call_of(members_.me).text && !is_idle(member)) return member;
  return {};
}

/// Whether that member or this one joins a meeting without numbers.
bool group_call::is_idle(std::uint32_t member) const {
  return is_meeting() && (order_.input.count() == 0 || shares_[member]->given.numbers.rows == 0);
}

bool group_call::finish() {
  for (std::uint32_t member = 0; member < shares_.size(); ++member)
    if (sum_.add_share(summand_of(member))) return false;
  if (reduces())
    reduce();
  else
    sum_.summed_elsewhere();
  return take_given();
}

/// Returns a member's summand: this one's whole input, or another one's share of the slice that is summed here.
actors::share_of_rank group_call::summand_of(std::uint32_t member) const {
  actors::share_of_rank one{.rank = member, .count = sum_.count()};
  if (!reduces()) return one;
  const tensor& input = order_.input;
  if (member == members_.me) {
    one.numbers = {input.owner().get(), input.count() * size_of(input.type())};
    return one;
  }
  const msg::tensor& numbers = shares_[member]->given.numbers;
  one.first = sum_.slice_of(members_.me).first;
  if (numbers.type == input.type()) one.numbers = {numbers.bytes.data(), numbers.bytes.size()};
  return one;
}

void group_call::reduce() {
  const tensor& input = order_.input;
  const tensor& result = results_.front();
  const actors::sum_slice mine = sum_.slice_of(members_.me);
  const std::size_t first = order_.kind == collective_kind::reduce_scatter ? 0 : mine.first;
  std::byte* const to = result.owner().get() + first * size_of(input.type());
  const auto add = [this](std::span<const std::byte* const> in, std::size_t count, std::byte* out) {
    reduce_in_rank_order(order_.how, order_.input.type(), in, count, out);
  };
  sum_.sum(add, to);
  // Copied: this trainer may change its result while others read the sum.
  if (sum_.sends_sum(members_.me))
    slice_ = numbers_of(clone_of(tensor(shape(mine.size), input.type(), {result.owner(), to}))).numbers;
}

/// Returns false if a share has no valid tensor, or a wrong one where all must have the same shape and type.
bool group_call::take_given() {
  if (reduces()) return true;
  const bool are_alike = order_.kind != collective_kind::broadcast && order_.kind != collective_kind::scatter;
  for (std::uint32_t member = 0; member < shares_.size(); ++member) {
    if (!gives(member, members_.me)) continue;
    auto one = member == members_.me ? clone_of(tensor_for(member)) : tensor_of(shares_[member]->given);
    if (!one) return false;
    if (are_alike && member != members_.me) {
      if (one->type() != order_.input.type()) return false;
      if (one->shape() != order_.input.shape() && !is_idle(member)) return false;
    }
    results_.push_back(std::move(*one));
  }
  return true;
}

bool group_call::add_sum(std::uint32_t member, const msg::tensor& numbers) {
  if (!is_called()) return false;
  const tensor& input = order_.input;
  const std::size_t one = size_of(input.type());
  const actors::sum_slice its = sum_.slice_of(member);
  if (numbers.type != input.type() || numbers.bytes.size() != its.size * one) return false;
  if (sum_.add_sum(member, its)) return false;
  std::copy_n(numbers.bytes.data(), numbers.bytes.size(), results_.front().owner().get() + its.first * one);
  return true;
}

}  // namespace troupe::runtime
