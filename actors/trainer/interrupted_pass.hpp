// A pass that waits midway for numbers of other ranks, while its actor handles other messages.

#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "base/assert.hpp"
#include "base/fiber.hpp"
#include "nn/rank_means.hpp"

namespace troupe::actors {

/// Belongs to one actor.
class interrupted_pass final : public nn::rank_means {
 public:
  explicit interrupted_pass(std::uint32_t ranks) : ranks_(ranks) {}

  /// Runs a pass until it ends or waits. Requires: no pass is active.
  void begin(std::function<void()> pass) {
    TROUPE_ASSERT(!pass_);
    syncs_ = 0;
    pass_ = std::make_unique<fiber>(std::move(pass));
    resume();
  }

  /// The numbers whose means the pass waits for; empty: the pass is over.
  std::span<const float> wanted() const { return wanted_; }
  /// How often the pass has waited before.
  std::uint32_t syncs() const { return syncs_; }

  /// Continues with the means of `wanted`, of the same count.
  void proceed(std::span<const float> means) {
    TROUPE_ASSERT(means.size() == wanted_.size() && !means.empty());
    std::ranges::copy(means, wanted_.begin());
    ++syncs_;
    resume();
  }

  std::uint32_t ranks() const override { return ranks_; }
  void mean(std::span<float> numbers) override {
    TROUPE_ASSERT(pass_);
    wanted_ = numbers;
    pass_->leave();
  }

 private:
  void resume() {
    wanted_ = {};
    pass_->resume();
    if (pass_->is_over()) pass_.reset();
  }

  std::uint32_t ranks_;
  std::uint32_t syncs_ = 0;
  std::span<float> wanted_;
  std::unique_ptr<fiber> pass_;  ///< null: no pass is active
};

}  // namespace troupe::actors
