#include "actors/collective/ordered_sum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>

#include "base/assert.hpp"
#include "kernels/device.hpp"

namespace troupe::actors {

namespace {

/// A list that needs no allocation for so few shares.
template <class T>
using few = boost::container::small_vector<T, 8>;

}  // namespace

share_exchange fastest_exchange(std::uint32_t processes, std::uint64_t count, std::size_t number_bytes,
                                bool may_gather) {
  constexpr std::uint32_t many = 4;
  const std::uint64_t small_count = (std::uint64_t{64} << 10) / number_bytes;
  if (may_gather && processes >= many && count <= small_count) return share_exchange::gathered;
  const bool is_small = processes == 1 || count <= small_count / (processes - 1);
  return is_small ? share_exchange::whole : share_exchange::slices;
}

reduction sum_of_floats(float scale) {
  return [scale](std::span<const std::byte* const> in, std::size_t count, std::byte* out) {
    few<const float*> floats;
    for (const std::byte* const one : in) floats.push_back(reinterpret_cast<const float*>(one));
    kernels::host_stream().sum_in_rank_order(floats, count, scale, reinterpret_cast<float*>(out));
  };
}

sum_slice ordered_sum::slice_of(std::uint32_t process) const {
  const std::uint64_t all = count();
  if (plan_.how == share_exchange::announced) return {0, 0};
  if (plan_.how == share_exchange::whole) return {0, all};
  if (plan_.how == share_exchange::gathered) return {0, process == plan_.root ? all : 0};
  const std::uint64_t line = plan_.how == share_exchange::slices ? 16 : 1;
  const auto begin = [&](std::uint64_t i) {
    return std::min(all, (all + line - 1) / line * i / layout_->processes * line);
  };
  return {begin(process), begin(process + 1) - begin(process)};
}

void ordered_sum::enter(state next) {
  const bool follows = static_cast<int>(next) == static_cast<int>(state_) + 1;
  const bool skips_exchange = state_ == state::complete && next == state::reduced;
  TROUPE_ASSERT(follows || skips_exchange || (state_ == state::reduced && next == state::idle));
  TROUPE_ASSERT(next != state::complete || shares_missing_ == 0);
  TROUPE_ASSERT(next != state::reduced || sums_missing_ == 0);
  state_ = next;
}

void ordered_sum::begin(const rank_layout& layout, const sum_plan& plan) {
  enter(state::collecting);
  layout_ = &layout;
  plan_ = plan;
  shares_.assign(layout.ranks(), {});
  summed_.assign(layout.processes, false);
  shares_missing_ = 0;
  for (std::uint32_t rank = 0; rank < layout.ranks(); ++rank) shares_missing_ += needs_share(rank) ? 1 : 0;
  sums_missing_ = 0;
  for (std::uint32_t process = 0; process < layout.processes; ++process)
    sums_missing_ += process != layout.me && sends_sum(process) ? 1 : 0;
}

std::optional<refusal> ordered_sum::add_share(const share_of_rank& share) {
  TROUPE_ASSERT(state_ != state::idle && share.rank < layout_->ranks());
  using enum refusal::cause;
  const std::size_t one = plan_.number_bytes;
  if (has_share(share.rank)) return refusal{not_due, fmt::format("a share of rank {} twice", share.rank)};
  if (share.count != count()) {
    const auto other = std::ranges::find_if(shares_, &std::optional<share_of_rank>::has_value) - shares_.begin();
    return refusal{misfit, fmt::format("rank {} sent {} bytes, rank {} sent {}", share.rank, share.count * one, other,
                                       count() * one)};
  }
  if (!needs_share(share.rank))
    return refusal{not_due, fmt::format("a share of rank {}, which process {} sums", share.rank, plan_.root)};
  const bool is_local = layout_->is_local(share.rank);
  sum_slice expected = is_local ? sum_slice{0, count()} : slice_of(layout_->me);
  if (!is_local && share.batches == 0) expected.size = 0;
  if ((!is_local && count() > count_max) || share.first != expected.first ||
      share.numbers.size() != expected.size * one)
    return refusal{misfit,
                   fmt::format("rank {} sent {} numbers from {} on of {}, expected {} from {} on", share.rank,
                               share.numbers.size() / one, share.first, count(), expected.size, expected.first)};
  shares_[share.rank] = share;
  if (--shares_missing_ == 0) enter(state::complete);
  return {};
}

void ordered_sum::sum(const reduction& add, std::byte* to) {
  TROUPE_ASSERT(state_ == state::complete && plan_.how != share_exchange::announced);
  const sum_slice mine = slice_of(layout_->me);
  const std::size_t one = plan_.number_bytes;
  few<const std::byte*> in;
  for (const auto& share : shares_)
    if (share && share->batches > 0) in.push_back(share->numbers.data() + (mine.first - share->first) * one);
  if (in.empty())
    std::fill_n(to, mine.size * one, std::byte{});
  else if (mine.size > 0)
    add(in, mine.size, to);
  enter(sums_missing_ > 0 ? state::exchanging : state::reduced);
}

std::optional<refusal> ordered_sum::add_sum(std::optional<std::uint32_t> from, const sum_slice& which) {
  TROUPE_ASSERT(state_ != state::idle);
  for (std::uint32_t process = 0; process < layout_->processes; ++process) {
    if (process == layout_->me || process != from.value_or(process)) continue;
    if (!sends_sum(process) || summed_[process] || slice_of(process) != which) continue;
    summed_[process] = true;
    if (--sums_missing_ == 0 && state_ == state::exchanging) enter(state::reduced);
    return {};
  }
  return refusal{refusal::cause::misfit,
                 fmt::format("an unexpected sum of {} numbers from {} on", which.size, which.first)};
}

void ordered_sum::summed_elsewhere() {
  TROUPE_ASSERT(plan_.how == share_exchange::announced);
  enter(state::reduced);
}

bool ordered_sum::lacks_sum(std::uint32_t rank) const {
  if (state_ <= state::collecting) return false;
  const std::uint32_t process = layout_->process_of_rank[rank];
  return process != layout_->me && takes_shares(process) && !summed_[process];
}

std::uint64_t ordered_sum::batches() const {
  std::uint64_t all = 0;
  for (const auto& one : shares_) all += one ? one->batches : 0;
  return all;
}

}  // namespace troupe::actors
