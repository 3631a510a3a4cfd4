#include "troupe/runtime/group_call.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "base/assert.hpp"
#include "troupe/runtime/rank_reduction.hpp"
#include "troupe/runtime/tensors.hpp"

namespace troupe::runtime {

namespace {

static_assert(static_cast<int>(dtype::f32) == static_cast<int>(msg::dtype::f32) &&
              static_cast<int>(dtype::f64) == static_cast<int>(msg::dtype::f64) &&
              static_cast<int>(dtype::i64) == static_cast<int>(msg::dtype::i64));

/// A column of `count` numbers in memory that `owner` keeps.
msg::tensor column_of(dtype type, const std::shared_ptr<std::byte>& owner, std::size_t first, std::size_t count) {
  const std::size_t one = size_of(type);
  return {static_cast<msg::dtype>(type), count, 1, msg::blob(owner, owner.get() + first * one, count * one)};
}

/// Returns the memory of `bytes`. Requires: nobody else has it (`share_for`), or nobody writes it.
std::shared_ptr<std::byte> memory_of(const msg::blob& bytes) {
  return {std::const_pointer_cast<void>(bytes.owner()), const_cast<std::byte*>(bytes.data())};
}

/// Returns none if there are too many lengths, or more elements than can be counted.
std::optional<shape> shape_of(const std::vector<std::uint64_t>& lengths) {
  if (lengths.size() > shape::dimensions_max) return {};
  std::size_t all = 1;
  for (const std::uint64_t one : lengths)
    if (__builtin_mul_overflow(all, std::max<std::uint64_t>(one, 1), &all)) return {};
  return shape::of(lengths);
}

}  // namespace

given_numbers numbers_of(const tensor& x) {
  return {lengths_of(x.shape()), column_of(x.type(), x.owner(), 0, x.count())};
}

std::optional<tensor> tensor_of(const given_numbers& given) {
  const bool is_known = given.numbers.type <= msg::dtype::i64 && given.numbers.cols == 1;
  const auto lengths = shape_of(given.lengths);
  if (!is_known || !given.numbers.consistent() || !lengths || lengths->count() != given.numbers.rows) return {};
  if (given.numbers.rows == 0) return tensor(*lengths, static_cast<dtype>(given.numbers.type));
  return tensor(*lengths, static_cast<dtype>(given.numbers.type), memory_of(given.numbers.bytes));
}

tensor clone_of(const tensor& x) {
  tensor made(x.shape(), x.type());
  std::copy_n(x.owner().get(), x.count() * size_of(x.type()), made.owner().get());
  return made;
}

void group_call::add_share(std::uint32_t member, std::string words, given_numbers given) {
  TROUPE_ASSERT(!has_share(member) && (state_ == state::open || state_ == state::called));
  shares_[member] = {std::move(words), std::move(given)};
  ++arrived_;
}

void group_call::call(call_order what, std::string words) {
  TROUPE_ASSERT(state_ == state::open);
  state_ = state::called;
  order_ = std::move(what);
  words_ = std::move(words);
  if (goes_in_slices()) results_ = {tensor(order_.input.shape(), order_.input.type())};
}

// -- what the others get ------------------------------------------------------------------

/// A small tensor is there sooner if it goes whole to all, in one message to each.
bool group_call::goes_in_slices() const {
  constexpr std::size_t small_bytes = std::size_t{64} << 10;
  return order_.kind == collective_kind::all_reduce &&
         order_.input.count() * size_of(order_.input.type()) * (members() - 1) > small_bytes;
}

/// Returns the slice of the input that `member` reduces. Slices of an all_reduce begin at cache lines.
group_call::slice group_call::slice_of(std::uint32_t member) const {
  const std::size_t count = order_.input.count();
  if (order_.kind == collective_kind::reduce_scatter) return {count / members() * member, count / members()};
  if (!goes_in_slices()) return {0, count};
  constexpr std::size_t line = 16;
  const auto begin = [&](std::size_t i) { return std::min(count, (count + line - 1) / line * i / members() * line); };
  return {begin(member), begin(member + 1) - begin(member)};
}

/// `copied`: the caller may change its input while others still read this.
msg::tensor group_call::part_of_input(slice which, bool copied) {
  if (!copied) return column_of(order_.input.type(), order_.input.owner(), which.first, which.count);
  if (!copy_) {
    const tensor all = clone_of(order_.input);
    copy_ = column_of(all.type(), all.owner(), 0, all.count());
  }
  const std::size_t one = size_of(order_.input.type());
  return {copy_->type, which.count, 1, copy_->bytes.part(which.first * one, which.count * one)};
}

given_numbers group_call::share_for(std::uint32_t member, bool keeps) {
  const bool is_root = order_.root == me_;
  switch (order_.kind) {
    case collective_kind::all_reduce:
      // Slices are read before their sums come, which this trainer's future waits for.
      return {{}, part_of_input(slice_of(member), !goes_in_slices())};
    case collective_kind::reduce_scatter:
      return {{}, part_of_input(slice_of(member), true)};
    case collective_kind::scatter:
      return is_root ? numbers_of(clone_of(order_.parts[member])) : given_numbers();
    case collective_kind::barrier:
      return {};
    case collective_kind::all_gather:
    case collective_kind::meeting:
      break;
    case collective_kind::broadcast:
      if (!is_root) return {};
      break;
    case collective_kind::gather:
      if (order_.root != member) return {};
      break;
  }
  given_numbers whole = numbers_of(order_.input);
  whole.numbers = keeps ? numbers_of(clone_of(order_.input)).numbers : part_of_input({0, order_.input.count()}, true);
  return whole;
}

// -- what comes of it -----------------------------------------------------------------------

std::optional<std::uint32_t> group_call::disagreeing() const {
  for (std::uint32_t member = 0; member < members(); ++member)
    if (shares_[member] && shares_[member]->words != words_ && !stands_by(*shares_[member])) return member;
  return {};
}

/// Whether that member or this one gives no numbers to a meeting.
bool group_call::stands_by(const share& other) const {
  return order_.kind == collective_kind::meeting && (order_.input.count() == 0 || other.given.numbers.rows == 0);
}

bool group_call::finish() {
  TROUPE_ASSERT(state_ == state::called && has_all_shares());
  state_ = state::over;
  switch (order_.kind) {
    case collective_kind::all_reduce:
    case collective_kind::reduce_scatter:
      return reduce();
    case collective_kind::all_gather:
    case collective_kind::meeting:
      return gather();
    case collective_kind::gather:
      return order_.root != me_ || gather();
    case collective_kind::broadcast:
    case collective_kind::scatter:
      return take_from_root();
    case collective_kind::barrier:
      break;
  }
  return true;
}

bool group_call::reduce() {
  const tensor& input = order_.input;
  const slice mine = slice_of(me_);
  const std::size_t one = size_of(input.type());
  std::vector<const std::byte*> in;
  for (std::uint32_t member = 0; member < members(); ++member) {
    if (member == me_) {
      in.push_back(input.owner().get() + mine.first * one);
      continue;
    }
    const msg::tensor& numbers = shares_[member]->given.numbers;
    if (numbers.type != static_cast<msg::dtype>(input.type()) || numbers.bytes.size() != mine.count * one) return false;
    in.push_back(numbers.bytes.data());
  }
  if (!goes_in_slices()) {
    const bool is_cut = order_.kind == collective_kind::reduce_scatter;
    results_ = {tensor(is_cut ? input.shape().with_first(input.shape()[0] / members()) : input.shape(), input.type())};
    reduce_in_rank_order(order_.how, input.type(), in, mine.count, results_[0].owner().get());
    return true;
  }
  // The others may read the sum when this trainer changes its result.
  const tensor sum(shape(mine.count), input.type());
  reduce_in_rank_order(order_.how, input.type(), in, mine.count, sum.owner().get());
  std::copy_n(sum.owner().get(), mine.count * one, results_[0].owner().get() + mine.first * one);
  sum_ = column_of(input.type(), sum.owner(), 0, mine.count);
  if (sums_ + 1 < members()) state_ = state::exchanging;
  return true;
}

bool group_call::gather() {
  for (std::uint32_t member = 0; member < members(); ++member) {
    auto one = member == me_ ? clone_of(order_.input) : tensor_of(shares_[member]->given);
    if (!one || one->type() != order_.input.type()) return false;
    if (one->shape() != order_.input.shape() && (member == me_ || !stands_by(*shares_[member]))) return false;
    results_.push_back(std::move(*one));
  }
  return true;
}

bool group_call::take_from_root() {
  if (order_.root == me_) {
    results_ = {clone_of(order_.kind == collective_kind::scatter ? order_.parts[me_] : order_.input)};
    return true;
  }
  auto given = tensor_of(shares_[order_.root]->given);
  if (given) results_ = {std::move(*given)};
  return given.has_value();
}

bool group_call::add_sum(std::uint32_t member, const msg::tensor& numbers) {
  const bool is_due = (state_ == state::called || state_ == state::exchanging) && goes_in_slices() && member != me_ &&
                      !has_sum_[member];
  const slice its = is_due ? slice_of(member) : slice();
  const std::size_t one = size_of(order_.input.type());
  if (!is_due || numbers.type != static_cast<msg::dtype>(order_.input.type()) ||
      numbers.bytes.size() != its.count * one)
    return false;
  std::copy_n(numbers.bytes.data(), numbers.bytes.size(), results_[0].owner().get() + its.first * one);
  has_sum_[member] = true;
  if (++sums_ + 1 == members() && state_ == state::exchanging) state_ = state::over;
  return true;
}

}  // namespace troupe::runtime
