// A group's active and finished buckets.
//
// A rank has all means of a step before it starts the next one. So at most two steps have active buckets, and a
// finished bucket does not come again. A peer that breaks this could otherwise fill this process's memory.

#pragma once

#include <algorithm>
#include <bitset>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/assert.hpp"
#include "protocol/errors.hpp"

namespace troupe::actors {

struct bucket_id {
  std::uint64_t step = 0;
  std::uint32_t bucket = 0;

  auto operator<=>(const bucket_id&) const = default;  // NOLINT(modernize-use-nullptr): it compares with 0
};

/// Keeps a `Bucket` for each bucket under way, and its memory for later ones. Not thread-safe.
template <class Bucket>
class bucket_window {
 public:
  /// Far more than any model has layers.
  static constexpr std::size_t buckets_max = 1024;

  /// Returns an empty error if this bucket is active or can be opened, else the reason.
  caf::error check(const bucket_id& id) const {
    using protocol::errc;
    if (id.bucket >= buckets_max)
      return make_failure(errc::bad_input, "bucket {}, there are at most {}", id.bucket, buckets_max);
    if (id.step < over_step_ || (id.step == over_step_ && over_[id.bucket]))
      return make_failure(errc::wrong_context, "bucket {} is over", id.bucket);
    if (open_.empty()) return {};
    const std::uint64_t oldest = open_.begin()->first.step;
    const std::uint64_t newest = open_.rbegin()->first.step;
    if (oldest == newest || id.step == oldest || id.step == newest) return {};
    return make_failure(errc::wrong_context,
                        "bucket {} while those of steps {} and {} are under way, at most two steps can be", id.bucket,
                        oldest, newest);
  }

  /// Returns an active bucket, else null.
  Bucket* find(const bucket_id& id) {
    const auto known = open_.find(id);
    return known != open_.end() ? &known->second : nullptr;
  }

  /// Opens a bucket: a new one, or one in the state that some bucket had at `close`. Requires: `check` passes and
  /// `find` returns null.
  Bucket& open(const bucket_id& id) {
    const auto [at, is_new] = open_.try_emplace(id);
    TROUPE_ASSERT(is_new);
    if (!spare_.empty()) {
      at->second = std::move(spare_.back());
      spare_.pop_back();
    }
    return at->second;
  }

  /// Marks the bucket as finished.
  void close(const bucket_id& id) {
    const auto known = open_.find(id);
    TROUPE_ASSERT(known != open_.end());
    if (id.step > over_step_) over_.reset();
    over_step_ = std::max(over_step_, id.step);
    if (id.step == over_step_) over_.set(id.bucket);
    spare_.push_back(std::move(known->second));
    open_.erase(known);
  }

  /// Pairs of id and bucket, ascending.
  const std::map<bucket_id, Bucket>& under_way() const { return open_; }

 private:
  std::map<bucket_id, Bucket> open_;
  std::uint64_t over_step_ = 0;    ///< the newest step with finished buckets
  std::bitset<buckets_max> over_;  ///< the finished buckets of that step
  std::vector<Bucket> spare_;
};

}  // namespace troupe::actors
