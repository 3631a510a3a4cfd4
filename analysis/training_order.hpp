// What the order of a training run is, as far as analyses have to know: who the trainers are, and which steps'
// gradients a lookup waits for.

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "analysis/trace.hpp"
#include "protocol/message_types.hpp"

namespace troupe::analysis {

/// Of the job as the metadata tell it: `job.consistency` (`sync`, `ssp:K`, `async`) and `job.accumulate`. Without them,
/// synchronous, and each step an optimizer step.
class training_order {
 public:
  explicit training_order(const trace::recording& run);

  /// Numbers of all trainers, by rank.
  const std::vector<std::uint16_t>& trainers() const { return trainers_; }
  std::optional<std::uint16_t> trainer(std::uint16_t rank) const;

  /// How many optimizer steps rows may lack; nothing: any.
  std::optional<std::uint64_t> staleness() const { return staleness_; }
  /// By how many steps a trainer's lookups may be ahead of its gradients, beyond the next.
  std::uint64_t lookahead() const;
  std::uint64_t optimizer_step(std::uint64_t step) const { return step == 0 ? 0 : (step - 1) / accumulate_ + 1; }
  /// The last step whose gradients a lookup of `step` waits for; 0: none.
  std::uint64_t needed(std::uint64_t step) const { return needed(step, staleness_.value_or(step)); }
  /// Likewise if its rows may lack nothing, as in an evaluation.
  std::uint64_t needed_strictly(std::uint64_t step) const { return needed(step, 0); }

 private:
  std::uint64_t needed(std::uint64_t step, std::uint64_t staleness) const;

  std::vector<std::uint16_t> trainers_;
  std::map<std::uint16_t, std::uint16_t> by_rank_;
  std::optional<std::uint64_t> staleness_ = 0;
  std::uint64_t accumulate_ = 1;
};

/// The rank in a name like `trainer 3` or `server 3`; nothing if it is none of `role`.
std::optional<std::uint16_t> rank_in(std::string_view name, std::string_view role);

/// Whether `name` is that of one of these types.
template <class... Messages>
constexpr bool is_any_of(std::string_view name) {
  return ((name == protocol::message_name_v<Messages>) || ...);
}

/// The number that `run` has for messages of this type; nothing if it has none.
template <class Message>
std::optional<std::uint16_t> type_number(const trace::recording& run) {
  const auto found =
      std::ranges::find_if(run.types, [](const auto& one) { return one.second == protocol::message_name_v<Message>; });
  return found == run.types.end() ? std::nullopt : std::optional(found->first);
}

}  // namespace troupe::analysis
