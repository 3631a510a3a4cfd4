// How the master responds to the loss of a member: it ends the run at once, or after it has learned more.

#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "actors/master/membership.hpp"
#include "actors/master/run_phase.hpp"
#include "protocol/errors.hpp"

namespace troupe::actors {

/// Belongs to the master.
class loss_response {
 public:
  enum class action : std::uint8_t {
    none,
    fail,              ///< the run ends with the verdict's reason
    find_late,         ///< as `fail`, once it is known which members handle no message
    learn_step,        ///< as `fail`, once the step is known: another attempt may follow
    await_better_one,  ///< the run ends after a moment, with `reason_after_wait`
  };

  /// Returns the action for a verdict in that phase of the run.
  action respond(const verdict& found, run_phase phase) {
    if (is_ending_ || found.what == verdict::kind::harmless) return action::none;
    if (found.what == verdict::kind::doubtful) {
      const bool is_better = protocol::is_secondary(doubt_) && !protocol::is_secondary(found.why);
      if (!doubt_ || is_better) doubt_ = found.why;
      return action::await_better_one;
    }
    if (found.why == protocol::errc::timeout) {
      if (phase != run_phase::training) return action::fail;
      return std::exchange(finds_late_, true) ? action::none : action::find_late;
    }
    return protocol::is_transient(found.why) && begin_end() ? action::learn_step : action::fail;
  }

  /// Notes that the run ends once the step of a loss is known. Returns false if that was noted before.
  bool begin_end() { return !std::exchange(is_ending_, true); }

  /// Returns the best reason so far to end the run; null: the run ends in another way.
  std::optional<caf::error> reason_after_wait() const {
    return finds_late_ || is_ending_ ? std::nullopt : std::optional(doubt_);
  }

 private:
  caf::error doubt_;         ///< the reason of the verdicts that await a better one
  bool finds_late_ = false;  ///< the run fails when it is known which members are late
  bool is_ending_ = false;   ///< the run fails when the step of the loss is known
};

}  // namespace troupe::actors
