// How the number of a run's trainers changes: by its job's plan, or on request. The run continues with the new number
// in another attempt.

#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "actors/master/run_phase.hpp"

namespace troupe::actors {

/// The rules of a run's plan.
struct trainer_rules {
  /// The step after which the job changes the number, and the new number; 0: no change.
  std::uint64_t after = 0;
  std::uint32_t to = 0;
  /// Returns why the run cannot continue with `trainers` trainers after a step; null if it can. An empty function: a
  /// program's run, in which the number never changes.
  std::function<std::optional<std::string>(std::uint32_t trainers, std::uint64_t step)> check = {};
};

/// Belongs to the master.
class trainer_changes {
 public:
  /// The run will stop, so no attempt with another number follows.
  void stop() { stops_ = true; }
  bool stops() const { return stops_; }

  /// Requests `trainers` trainers after the current step. Returns why the run cannot have them; null if it will.
  /// `rules` are unknown in the phase `unordered`.
  std::optional<std::string> ask(std::uint32_t trainers, const trainer_rules& rules, run_phase phase,
                                 std::uint64_t step) {
    const bool has_rules = phase != run_phase::unordered;
    if (has_rules && !rules.check)
      return "the run is a program's, which has as many trainers to its end; begin it anew with others";
    auto wrong = has_rules ? rules.check(trainers, step) : std::nullopt;
    if (phase != run_phase::training)
      return wrong.value_or(
          fmt::format("the run is not training (it is {}); ask again when it is", description_of(phase)));
    if (stops_) return "the run is being stopped";
    if (asked_ > 0) return fmt::format("it is about to continue with {}", asked_);
    if (!wrong) asked_ = trainers;
    return wrong;
  }

  /// Returns how many trainers the run continues with if the present ones end after this step; 0: the run then ends.
  std::uint32_t after(std::uint64_t step, const trainer_rules& rules, std::uint64_t total_steps) const {
    if (stops_ || step == total_steps) return 0;
    return asked_ == 0 && step == rules.after ? rules.to : asked_;
  }

 private:
  bool stops_ = false;
  std::uint32_t asked_ = 0;  ///< the requested number of trainers; 0: no request
};

}  // namespace troupe::actors
