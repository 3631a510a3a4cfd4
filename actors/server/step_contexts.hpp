// The coming optimizer steps at a parameter server: what each trainer has contributed to them, and how far they are.
//
// An optimizer step consists of `accumulate` global steps; messages name the global step. The distance between trainers
// is limited, which bounds the number of open contexts.

#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "actors/server/remote_module.hpp"
#include "model/job.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// What one trainer has contributed to an optimizer step.
struct contribution {
  std::vector<msg::gradient> parts;
  bool wants_norm = false;  ///< no more gradients can be added
  bool complete = false;
};

/// What a trainer orders for the optimizer step that its messages complete.
struct step_order {
  bool apply = true;
  float factor = 1;
  bool operator==(const step_order&) const = default;
};

/// The gradients of one optimizer step.
struct step_context {
  std::vector<contribution> ranks;
  std::uint32_t complete = 0;
  std::uint64_t last_step = 0;
  bool keeps = false;  ///< a checkpoint saves the state before it
  step_order order;
  std::vector<std::pair<msg::header, caf::typed_response_promise<msg::committed>>> waiting;
  std::vector<std::pair<msg::header, caf::typed_response_promise<msg::squared_norm>>> norm_waiting;
};

/// Belongs to the server's actor.
class step_contexts {
 public:
  /// Which gradients make up an optimizer step, and how far lookups may run ahead of it.
  struct rules {
    std::uint32_t trainers = 0;
    std::uint32_t accumulate = 1;
    std::uint32_t staleness = 0;
    bool operator==(const rules&) const = default;
  };

  /// Begins after `steps_done` global steps.
  void begin(const rules& chosen, std::uint64_t steps_done) {
    rules_ = chosen;
    committed_ = (steps_done + rules_.accumulate - 1) / rules_.accumulate;
    last_sequence_.resize(rules_.trainers);
    last_update_.assign(rules_.trainers, committed_);
    // A trainer can be ahead of the others by the staleness plus the current step, and its lookups by as much again. A
    // trainer without a batch does not wait for rows, and can be ahead by one more.
    contexts_.resize(is_async() ? 1 : 2 * (std::size_t{rules_.staleness} + 1) + 1);
    for (step_context& one : contexts_) one.ranks.resize(rules_.trainers);
  }
  /// Returns whether the rules are set.
  bool have_begun() const { return rules_.trainers != 0; }
  const rules& by() const { return rules_; }
  bool is_async() const { return rules_.staleness == model::any_staleness; }

  /// Returns the optimizer step of global step `at_step`, from 1.
  std::uint64_t update_of(std::uint64_t at_step) const { return (at_step - 1) / rules_.accumulate + 1; }
  step_context& of(std::uint64_t update) { return contexts_[update % contexts_.size()]; }
  const step_context& of(std::uint64_t update) const { return contexts_[update % contexts_.size()]; }
  step_context& next() { return of(committed_ + 1); }
  const step_context& next() const { return of(committed_ + 1); }
  bool is_next_complete() const { return next().complete == rules_.trainers; }
  /// The last global step that a message may be for.
  std::uint64_t last_open_step() const {
    return is_async() ? UINT64_MAX : (committed_ + contexts_.size()) * rules_.accumulate;
  }

  /// The number of optimizer steps that have been applied.
  std::uint64_t committed() const { return committed_; }
  /// Marks the next optimizer step as applied: its context is free again, except for requests that wait for it.
  void commit() {
    step_context& done = next();
    for (contribution& rank : done.ranks) rank.wants_norm = rank.complete = false;
    done.complete = 0;
    done.keeps = false;
    ++committed_;
  }
  /// Consistency async: marks optimizer step `update` of one rank as applied.
  void commit(std::uint64_t update, std::uint32_t rank) { last_update_[rank] = update; }
  /// Consistency async: the last optimizer step applied, by rank.
  const std::vector<std::uint64_t>& last_of_ranks() const { return last_update_; }
  /// The number of optimizer steps whose gradients of all trainers have been applied.
  std::uint64_t of_all() const { return is_async() ? *std::ranges::min_element(last_update_) : committed_; }
  /// Returns how many optimizer steps before that of a global step have not been applied.
  std::uint64_t missing_before(std::uint64_t at_step) const {
    const std::uint64_t before = update_of(at_step) - 1;
    return before - std::min(before, of_all());
  }

  /// The sequence number of a rank's last gradient; 0: there was none.
  std::uint64_t last_sequence(std::uint32_t rank) const {
    return rank < last_sequence_.size() ? last_sequence_[rank] : 0;
  }
  /// Adds a gradient, which is the rank's next one.
  void add(msg::gradient&& grads) {
    last_sequence_[grads.rank] = grads.head.sequence;
    step_context& open = of(update_of(grads.head.step));
    open.keeps = open.keeps || grads.keeps;
    open.ranks[grads.rank].parts.push_back(std::move(grads));
  }

 private:
  rules rules_;
  std::vector<step_context> contexts_{2};
  std::uint64_t committed_ = 0;
  std::vector<std::uint64_t> last_update_;    ///< by rank, async
  std::vector<std::uint64_t> last_sequence_;  ///< by rank, to ignore a repeated gradient
};

}  // namespace troupe::actors
