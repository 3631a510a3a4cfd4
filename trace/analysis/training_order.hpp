// What analyses know about training: message types, the trainers, and the steps whose gradients a lookup waits for. A
// message type that is renamed in the protocol is a compile error here.

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "protocol/message_types.hpp"
#include "trace/analysis/trace.hpp"

namespace troupe::analysis {

/// Follows from `job.consistency` (`sync`, `ssp:K`, `async`) and `job.accumulate` in the metadata. Without them a run
/// is synchronous, and each step is an optimizer step.
class training_order {
 public:
  explicit training_order(const trace::recording& run);

  /// The actor numbers of the trainers that use rows, in the order of their ranks at servers: in replicas with parts,
  /// the first part's.
  const std::vector<std::uint16_t>& trainers() const { return trainers_; }
  /// The actor number of any trainer.
  std::optional<std::uint16_t> trainer(std::uint16_t rank) const;
  /// The parts of replicas: trainer r has part r % parts.
  std::uint16_t parts() const { return parts_; }

  /// How many optimizer steps rows may lack; nullopt: any number.
  std::optional<std::uint64_t> staleness() const { return staleness_; }
  /// By how many steps, beyond the next one, a trainer's lookups may be ahead of its gradients.
  std::uint64_t lookahead() const;
  std::uint64_t optimizer_step(std::uint64_t step) const { return step == 0 ? 0 : (step - 1) / accumulate_ + 1; }
  /// The last step whose gradients a lookup of `step` waits for; 0: none.
  std::uint64_t needed(std::uint64_t step) const { return needed(step, staleness_.value_or(step)); }
  /// The same if its rows may lack no step, as in an evaluation.
  std::uint64_t needed_strictly(std::uint64_t step) const { return needed(step, 0); }

 private:
  std::uint64_t needed(std::uint64_t step, std::uint64_t staleness) const;

  std::vector<std::uint16_t> trainers_;
  std::map<std::uint16_t, std::uint16_t> by_rank_;
  std::uint16_t parts_ = 1;
  std::optional<std::uint64_t> staleness_ = 0;
  std::uint64_t accumulate_ = 1;
};

/// The rank in a name like `trainer 3` or `server 3`; nullopt if the name is not of `role`.
std::optional<std::uint16_t> rank_in(std::string_view name, std::string_view role);

/// Whether `name` is the name of one of these message types.
template <class... Messages>
constexpr bool is_any_of(std::string_view name) {
  return ((name == protocol::message_name_v<Messages>) || ...);
}

/// The number of this message type in `run`; nullopt if it has none.
template <class Message>
std::optional<std::uint16_t> type_number(const trace::recording& run) {
  const auto found =
      std::ranges::find_if(run.types, [](const auto& one) { return one.second == protocol::message_name_v<Message>; });
  return found == run.types.end() ? std::nullopt : std::optional(found->first);
}

}  // namespace troupe::analysis
