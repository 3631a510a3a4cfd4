// A trainer's coming steps, in order: the steps whose rows have been looked up, then at most one more with a prepared
// batch.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "actors/common/batches_ahead.hpp"
#include "actors/trainer/sparse_client.hpp"

namespace troupe::actors {

/// Belongs to a trainer.
class coming_steps {
 public:
  using context = sparse_client::context;
  using batches = batches_ahead<caf::expected<context>>;

  /// The steps after `done`, up to `last`. The other arguments are those of `batches_ahead`.
  coming_steps(std::uint64_t done, std::uint64_t last, std::shared_ptr<batch_threads> threads, std::size_t ahead,
               batches::maker make)
      : looked_up_(done), last_(last), batches_(std::move(threads), ahead, std::move(make)) {}

  /// The last step whose rows have been looked up.
  std::uint64_t looked_up() const { return looked_up_; }

  /// The step to prepare next; none if it is prepared already, or there is no further step.
  std::optional<std::uint64_t> lacking() const {
    const bool has_next = !steps_.empty() && steps_.back().step > looked_up_;
    return has_next || looked_up_ == last_ ? std::nullopt : std::optional(looked_up_ + 1);
  }
  /// Prepares the step of `lacking`. Requires: there is one.
  caf::error prepare() {
    auto made = batches_.take(looked_up_ + 1, last_);
    if (!made) return made.error();
    steps_.push_back(std::move(*made));
    return {};
  }
  /// Returns the prepared step, whose rows the caller looks up. Requires: `lacking` returns none.
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

  /// Returns whether all looked-up rows of the steps up to `last` have come.
  bool have_rows(std::uint64_t last) const {
    return std::ranges::none_of(steps_, [&](const context& one) { return one.step <= last && one.unanswered > 0; });
  }
  /// The number of lookups without an answer.
  std::uint64_t unanswered() const {
    std::uint64_t sum = 0;
    for (const context& one : steps_) sum += one.unanswered;
    return sum;
  }

 private:
  std::uint64_t looked_up_;
  std::uint64_t last_;
  std::deque<context> steps_;  ///< entries keep their addresses while answers are pending
  batches batches_;            ///< destroyed first: it may be making batches
};

}  // namespace troupe::actors
