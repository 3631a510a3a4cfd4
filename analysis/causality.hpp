// What led to what in a recorded run: messages by id, what each actor did one after the other, and from which of these
// activities each message came.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "analysis/trace.hpp"

namespace troupe::analysis {

/// An index over a recording, which must outlive it. Order comes from messages and from what each actor did, never from
/// comparing clocks of different hosts. Immutable, so any thread may ask. Built in O(n log n).
///
/// An *activity* of an actor is a message that it handled, or a turn of its own: a range of work or a timer outside of
/// any handled message.
class causality {
 public:
  explicit causality(const trace::recording& of);

  const trace::recording& run() const { return *run_; }

  /// The record of the message having been handled, sent to or arrived from another process; null if there is none.
  const trace::event* handled(std::uint64_t id) const { return find(handled_, id); }
  const trace::event* sent(std::uint64_t id) const { return find(sent_, id); }
  const trace::event* arrived(std::uint64_t id) const { return find(arrived_, id); }

  /// What `actor` did, in its order.
  std::span<const trace::event* const> activities(std::uint16_t actor) const;
  /// The ranges of work within `activity`, by begin; an outer one before those in it.
  std::span<const trace::event* const> ranges_in(const trace::event& activity) const;
  /// Numbers of all actors that have activities, ascending.
  const std::vector<std::uint16_t>& actors() const { return acting_; }

  /// The message because of which `message` (handled, sent or arrived) was sent: for an answer that had been parked,
  /// the one that released it, else its cause. 0 if no message made its sender send it.
  std::uint64_t trigger(const trace::event& message) const;
  /// The messages that were sent because of `id` and have been handled, by begin.
  std::vector<const trace::event*> effects(std::uint64_t id) const;

  /// The activity of the sender during which the handled `message` was sent; null if it is not recorded.
  const trace::event* sent_in(const trace::event& message) const;
  /// The last activity of `actor` that began at `when` or before; null if there is none.
  const trace::event* activity_at(std::uint16_t actor, trace::nanoseconds when) const;
  /// What its actor did before `activity`; null if that is the first.
  const trace::event* before(const trace::event& activity) const;
  /// The place of `activity` among its actor's.
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
  std::vector<std::uint32_t> slot_;  ///< by actor: one more than its place in `by_actor_`
  std::vector<actor_events> by_actor_;
  std::vector<std::uint16_t> acting_;
};

}  // namespace troupe::analysis
