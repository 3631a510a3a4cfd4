#include "actors/ordered_sum.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/failure.hpp"
#include "base/assert.hpp"
#include "kernels/device.hpp"

namespace troupe::actors {
namespace {

tl::unexpected<refusal> refuse(protocol::errc code, std::string why) {
  return tl::unexpected(refusal{code, std::move(why)});
}

}  // namespace

bucket_exchange fastest_exchange(std::uint32_t processes, std::uint64_t count) {
  constexpr std::uint64_t small_count = (std::uint64_t{64} << 10) / sizeof(float);
  constexpr std::uint32_t many = 4;
  if (processes >= many && count <= small_count) return bucket_exchange::gathered;
  const bool is_small = processes == 1 || count <= small_count / (processes - 1);
  return is_small ? bucket_exchange::whole : bucket_exchange::slices;
}

bucket_slice ordered_sum::slice_of(std::uint32_t process) const {
  if (exchange_ == bucket_exchange::announced) return {0, 0};
  if (exchange_ == bucket_exchange::whole) return {0, count_};
  if (const auto one = root()) return {0, process == *one ? count_ : 0};
  constexpr std::uint64_t line = 16;
  const auto begin = [this](std::uint64_t i) {
    return std::min(count_, (count_ + line - 1) / line * i / layout_->processes * line);
  };
  return {begin(process), begin(process + 1) - begin(process)};
}

void ordered_sum::enter(state next) {
  const bool follows = static_cast<int>(next) == static_cast<int>(state_) + 1;
  const bool skips_exchange = state_ == state::complete && next == state::reduced;
  TROUPE_ASSERT(follows || skips_exchange || (state_ == state::reduced && next == state::idle));
  TROUPE_ASSERT(next != state::complete || arrived_ == expected_);
  TROUPE_ASSERT(next != state::reduced || sums_missing_ == 0);
  state_ = next;
}

void ordered_sum::begin(const rank_layout& layout, std::uint32_t bucket, std::uint64_t count, bucket_exchange how) {
  enter(state::collecting);
  layout_ = &layout;
  bucket_ = bucket;
  count_ = count;
  exchange_ = how;
  parts_.assign(layout.ranks(), {});
  arrived_ = 0;
  expected_ = 0;
  for (std::uint32_t rank = 0; rank < layout.ranks(); ++rank) expected_ += needs_share(rank) ? 1 : 0;
  summed_.assign(layout.processes, false);
  sums_missing_ = how == bucket_exchange::slices ? layout.processes - 1 : takes_shares(layout.me) ? 0 : 1;
  stop_elsewhere_ = false;
  save_elsewhere_ = false;
}

std::optional<std::uint32_t> ordered_sum::root() const {
  if (exchange_ != bucket_exchange::gathered) return {};
  return bucket_ % layout_->processes;
}

ordered_sum::outcome ordered_sum::add_share(const share_of_rank& share) {
  TROUPE_ASSERT(state_ != state::idle && share.rank < layout_->ranks());
  if (has_share(share.rank))
    return refuse(errc::wrong_context, fmt::format("bucket {} of rank {} twice", bucket_, share.rank));
  if (share.count != count_) {
    const auto other = std::ranges::find_if(parts_, &std::optional<share_of_rank>::has_value) - parts_.begin();
    return refuse(errc::shape_mismatch,
                  fmt::format("bucket {}: rank {} sent {} bytes, rank {} sent {}", bucket_, share.rank,
                              share.count * sizeof(float), other, count_ * sizeof(float)));
  }
  if (!needs_share(share.rank))
    return refuse(errc::wrong_context, fmt::format("bucket {} of rank {}, which process {} sums", bucket_, share.rank,
                                                   root().value_or(layout_->me)));
  const bool is_local = layout_->is_local(share.rank);
  bucket_slice expected = is_local ? bucket_slice{0, count_} : slice_of(layout_->me);
  if (!is_local && share.batches == 0) expected.size = 0;
  if ((!is_local && count_ > count_max) || bucket_slice{share.first, share.numbers.size()} != expected)
    return refuse(errc::shape_mismatch,
                  fmt::format("bucket {} of rank {}: {} numbers from {} on of {}, expected {} from {} on", bucket_,
                              share.rank, share.numbers.size(), share.first, count_, expected.size, expected.first));
  parts_[share.rank] = share;
  if (++arrived_ == expected_) enter(state::complete);
  const bool leaves = is_local && layout_->processes > 1 && root() != layout_->me;
  return bucket_actions{.send_slices = leaves, .sum = state_ == state::complete};
}

/// Allocates with the first part of the mean: until then, `count_` may be only another process's claim.
float* ordered_sum::room_for_mean() {
  if (!mean_) mean_ = std::make_shared_for_overwrite<float[]>(count_);
  return mean_.get();
}

bucket_actions ordered_sum::sum() {
  TROUPE_ASSERT(state_ == state::complete && exchange_ != bucket_exchange::announced);
  if (!takes_shares(layout_->me)) {
    enter(sums_missing_ > 0 ? state::exchanging : state::reduced);
    return {.finish = state_ == state::reduced};
  }
  const bucket_slice mine = slice_of(layout_->me);
  inputs_.clear();
  for (const auto& one : parts_)
    if (one->batches > 0) inputs_.push_back(one->numbers.data() + (mine.first - one->first));
  float* const to = room_for_mean() + mine.first;
  if (inputs_.empty())
    std::fill_n(to, mine.size, 0.0F);
  else
    kernels::host_stream().sum_in_rank_order(inputs_, mine.size, 1.0F / static_cast<float>(batches()), to);
  enter(sums_missing_ > 0 ? state::exchanging : state::reduced);
  const bool is_partial = exchange_ == bucket_exchange::slices || exchange_ == bucket_exchange::gathered;
  return {.send_sum = is_partial, .finish = state_ == state::reduced};
}

ordered_sum::outcome ordered_sum::add_sum(std::optional<std::uint32_t> from, std::uint64_t first,
                                          std::span<const float> numbers, bool stop, bool save) {
  TROUPE_ASSERT(state_ != state::idle);
  for (std::uint32_t process = 0; process < layout_->processes; ++process) {
    if (process == layout_->me || process != from.value_or(process)) continue;
    if (exchange_ != bucket_exchange::slices && root() != process) continue;
    if (summed_[process] || slice_of(process) != bucket_slice{first, numbers.size()}) continue;
    std::ranges::copy(numbers, room_for_mean() + first);
    summed_[process] = true;
    stop_elsewhere_ = stop_elsewhere_ || stop;
    save_elsewhere_ = save_elsewhere_ || save;
    if (--sums_missing_ == 0 && state_ == state::exchanging) enter(state::reduced);
    return bucket_actions{.finish = state_ == state::reduced};
  }
  return refuse(errc::shape_mismatch,
                fmt::format("a sum of bucket {}, {} numbers from {} on, that no other process owes", bucket_,
                            numbers.size(), first));
}

void ordered_sum::summed_elsewhere() {
  TROUPE_ASSERT(exchange_ == bucket_exchange::announced);
  enter(state::reduced);
}

void ordered_sum::end() {
  enter(state::idle);
  mean_.reset();
}

bool ordered_sum::waits_for(std::uint32_t rank) const {
  if (needs_share(rank) && !has_share(rank)) return true;
  const std::uint32_t process = layout_->process_of_rank[rank];
  const bool sums = !root() || *root() == process;
  return state_ != state::collecting && process != layout_->me && sums && !summed_[process];
}

std::uint64_t ordered_sum::batches() const {
  std::uint64_t all = 0;
  for (const auto& one : parts_) all += one ? one->batches : 0;
  return all;
}

bool ordered_sum::stop() const {
  return stop_elsewhere_ || std::ranges::any_of(parts_, [](const auto& one) { return one && one->stop; });
}

bool ordered_sum::save() const {
  return save_elsewhere_ || std::ranges::any_of(parts_, [](const auto& one) { return one && one->save; });
}

}  // namespace troupe::actors
