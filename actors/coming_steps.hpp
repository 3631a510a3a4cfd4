// The coming steps of a trainer, in order: first those whose rows have been looked up, and then at most one more whose
// batch is prepared.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "actors/batches_ahead.hpp"
#include "actors/sparse_client.hpp"

namespace troupe::actors {

/// Belongs to a trainer.
class coming_steps {
 public:
  using context = sparse_client::context;
  using batches = batches_ahead<caf::expected<context>>;

  /// The steps after `done`, up to `last`. The others are those of `batches_ahead`.
  coming_steps(std::uint64_t done, std::uint64_t last, std::shared_ptr<batch_threads> threads, std::size_t ahead,
               batches::maker make)
      : looked_up_(done), last_(last), batches_(std::move(threads), ahead, std::move(make)) {}

  /// The last step whose rows have been looked up.
  std::uint64_t looked_up() const { return looked_up_; }

  /// The step to prepare next; none if that is done already, or there is none.
  std::optional<std::uint64_t> lacking() const {
    const bool has_next = !steps_.empty() && steps_.back().step > looked_up_;
    return has_next || looked_up_ == last_ ? std::nullopt : std::optional(looked_up_ + 1);
  }
  /// Requires: a step is lacking.
  caf::error prepare() {
    auto made = batches_.take(looked_up_ + 1, last_);
    if (!made) return made.error();
    steps_.push_back(std::move(*made));
    return {};
  }
  /// Returns the prepared step, whose rows the caller looks up. Requires: none is lacking.
  context& look_up_next() {
    ++looked_up_;
    return steps_.back();
  }

  bool empty() const { return steps_.empty(); }
  const context& first() const { return steps_.front(); }
  context take_first() {
    context taken = std::move(steps_.front());
    steps_.pop_front();
    return taken;
  }
  /// Requires: the step is among the coming ones.
  context& of(std::uint64_t step) { return steps_[step - steps_.front().step]; }

  /// Whether the rows of all steps up to `last` have come that have been looked up.
  bool have_rows(std::uint64_t last) const {
    return std::ranges::none_of(steps_, [&](const context& one) { return one.step <= last && one.unanswered > 0; });
  }
  /// Lookups without an answer.
  std::uint64_t unanswered() const {
    std::uint64_t sum = 0;
    for (const context& one : steps_) sum += one.unanswered;
    return sum;
  }

 private:
  std::uint64_t looked_up_;
  std::uint64_t last_;
  std::deque<context> steps_;  ///< they stay in place while answers are awaited
  batches batches_;            ///< destroyed first: it may be making some
};

}  // namespace troupe::actors
