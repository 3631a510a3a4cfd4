// The buckets that a group has under way, and those that are over.
//
// Every rank has all means of a step before it comes to the next step. So at most two steps have buckets under way, and
// a bucket that is over does not come again: a peer that could say otherwise could fill this process's memory.

#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "actors/ordered_sum.hpp"
#include "base/assert.hpp"

namespace troupe::actors {

struct bucket_id {
  std::uint64_t step = 0;
  std::uint32_t bucket = 0;

  auto operator<=>(const bucket_id&) const = default;
};

/// Keeps a `Bucket` for each bucket under way, and its memory for later ones. Not thread-safe.
template <class Bucket>
class bucket_window {
 public:
  /// Far more than a model has layers.
  static constexpr std::size_t buckets_max = 1024;

  /// Why this bucket can be neither under way nor opened; none if it can.
  std::optional<refusal> check(const bucket_id& id) const;

  /// The bucket if it is under way, else null.
  Bucket* find(const bucket_id& id) {
    const auto known = open_.find(id);
    return known != open_.end() ? &known->second : nullptr;
  }

  /// Opens a bucket that `check` lets through and `find` does not find. It is as new, or as another was when closed.
  Bucket& open(const bucket_id& id);

  /// The bucket is over.
  void close(const bucket_id& id);

  /// Pairs of id and bucket, ascending.
  const std::map<bucket_id, Bucket>& under_way() const { return open_; }

 private:
  std::map<bucket_id, Bucket> open_;
  std::uint64_t over_step_ = 0;    ///< the newest step that has buckets which are over
  std::bitset<buckets_max> over_;  ///< the buckets of that step which are
  std::vector<Bucket> spare_;
};

template <class Bucket>
std::optional<refusal> bucket_window<Bucket>::check(const bucket_id& id) const {
  if (id.bucket >= buckets_max)
    return refusal{protocol::errc::bad_input, fmt::format("bucket {}, there are at most {}", id.bucket, buckets_max)};
  if (id.step < over_step_ || (id.step == over_step_ && over_[id.bucket]))
    return refusal{protocol::errc::wrong_context, fmt::format("bucket {} is over", id.bucket)};
  if (open_.empty()) return {};
  const std::uint64_t oldest = open_.begin()->first.step;
  const std::uint64_t newest = open_.rbegin()->first.step;
  if (oldest == newest || id.step == oldest || id.step == newest) return {};
  return refusal{protocol::errc::wrong_context,
                 fmt::format("bucket {} while those of steps {} and {} are under way, at most two steps can be",
                             id.bucket, oldest, newest)};
}

template <class Bucket>
Bucket& bucket_window<Bucket>::open(const bucket_id& id) {
  const auto [at, is_new] = open_.try_emplace(id);
  TROUPE_ASSERT(is_new);
  if (!spare_.empty()) {
    at->second = std::move(spare_.back());
    spare_.pop_back();
  }
  return at->second;
}

template <class Bucket>
void bucket_window<Bucket>::close(const bucket_id& id) {
  const auto known = open_.find(id);
  TROUPE_ASSERT(known != open_.end());
  if (id.step > over_step_) over_.reset();
  over_step_ = std::max(over_step_, id.step);
  if (id.step == over_step_) over_.set(id.bucket);
  spare_.push_back(std::move(known->second));
  open_.erase(known);
}

}  // namespace troupe::actors
