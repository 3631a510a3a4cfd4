// Causes and effects in a recorded run: messages by id, the activities of each actor in order, and the activity that
// sent each message.

#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "trace/analysis/trace.hpp"

namespace troupe::analysis {

/// An index over a recording. Order follows from messages and from each actor's own records, never from comparing
/// clocks of different hosts. Built in O(n log n). Requires: the recording outlives it. Thread: any, it is immutable.
///
/// An *activity* of an actor is a message that it handled, or a turn of its own: a range of work or a timer outside of
/// any handled message.
class causality {
 public:
  /// The work of one stream of a device for an actor; streams that copy have a lane of their own.
  struct device_lane {
    std::uint16_t actor = 0;
    std::uint16_t device = 0;
    bool copies = false;

    auto operator<=>(const device_lane&) const = default;  // NOLINT(modernize-use-nullptr): it compares with 0
  };

  explicit causality(const trace::recording& of);

  const trace::recording& run() const { return *run_; }

  /// The record that the message was handled, sent to another process, or arrived from one, or null.
  const trace::event* handled(std::uint64_t id) const { return find(handled_, id); }
  const trace::event* sent(std::uint64_t id) const { return find(sent_, id); }
  const trace::event* arrived(std::uint64_t id) const { return find(arrived_, id); }

  /// The activities of `actor`, in order.
  std::span<const trace::event* const> activities(std::uint16_t actor) const;
  /// The ranges of work within `activity`, by begin; an outer one before the inner ones.
  std::span<const trace::event* const> ranges_in(const trace::event& activity) const;
  /// The times when that process did not run, in order. None overlap.
  std::span<const trace::event* const> stalls(std::uint32_t process) const;
  /// What devices did, in order. None overlap within a lane.
  const std::map<device_lane, std::vector<const trace::event*>>& device_lanes() const { return device_lanes_; }
  /// Numbers of all actors that have activities, ascending.
  const std::vector<std::uint16_t>& actors() const { return acting_; }

  /// The message that made the sender send `message` (handled, sent or arrived): for a parked answer the message that
  /// released it, otherwise its cause; 0 without one.
  std::uint64_t trigger(const trace::event& message) const;
  /// The messages that were sent because of `id` and have been handled, by begin.
  std::vector<const trace::event*> effects(std::uint64_t id) const;

  /// The activity of the sender during which the handled `message` was sent; null if it is not recorded.
  const trace::event* sent_in(const trace::event& message) const;
  /// The last activity of `actor` that began at `when` or before, or null.
  const trace::event* activity_at(std::uint16_t actor, trace::nanoseconds when) const;
  /// The previous activity of its actor; null if `activity` is the first.
  const trace::event* before(const trace::event& activity) const;
  /// The index of `activity` among its actor's activities.
  std::size_t index_of(const trace::event& activity) const;

 private:
  using index = std::vector<std::pair<std::uint64_t, const trace::event*>>;
  struct actor_events {
    std::vector<const trace::event*> activities;
    std::vector<const trace::event*> ranges;  ///< within activities
  };

  static const trace::event* find(const index& by_id, std::uint64_t id);
  void add_activity(const trace::event& one);
  const actor_events* of(std::uint16_t actor) const;

  const trace::recording* run_;
  index handled_;
  index sent_;
  index arrived_;
  index released_;
  index effects_;                    ///< handled messages by trigger
  std::vector<std::uint32_t> slot_;  ///< by actor: its index in `by_actor_` plus one; 0: none
  std::vector<actor_events> by_actor_;
  std::vector<std::vector<const trace::event*>> stalls_;  ///< by process, up to the last that has any
  std::map<device_lane, std::vector<const trace::event*>> device_lanes_;
  std::vector<std::uint16_t> acting_;
};

}  // namespace troupe::analysis
