// Messages that were sent and of which nobody has recorded that they came.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "analysis/causality.hpp"
#include "analysis/trace.hpp"

namespace troupe::analysis {

/// A link may need so long to carry a message; one that is older and has not come is lost.
constexpr trace::nanoseconds longest_transit_ns = 100'000'000;

/// An index over a recording, which must outlive it. Immutable.
class lost_messages {
 public:
  explicit lost_messages(const causality& index);

  /// Messages to other processes that have not arrived, by when they were sent.
  const std::vector<const trace::event*>& never_arrived() const { return never_arrived_; }

  /// Messages that wait for credit; they count as not sent.
  const std::vector<const trace::event*>& held_back() const { return held_back_; }

  /// One of `never_arrived`; null: none.
  const trace::event* find(std::uint16_t sender, std::uint16_t receiver, std::uint16_t type, std::uint64_t step) const;

  /// The answer to `request` that has been sent to another process; null: none.
  const trace::event* answer_sent(std::uint64_t request) const;

  /// Of the numbers that `sender` has given its messages, those of which no record, no board and no open request tells
  /// anything: ascending. None where a filter or an overwritten ring may be why.
  std::vector<std::uint64_t> unaccounted(std::uint16_t sender) const;

  /// From when on nothing is missing from the recording; nothing: a filter left things out.
  std::optional<trace::nanoseconds> complete_from() const { return complete_from_; }

 private:
  void account_for(const trace::event& one);
  void find_held_back();

  const causality& index_;
  std::optional<trace::nanoseconds> complete_from_;
  std::vector<const trace::event*> held_back_;
  std::vector<const trace::event*> never_arrived_;
  std::map<std::uint64_t, const trace::event*> answers_;           ///< by request
  std::map<std::uint16_t, std::vector<std::uint64_t>> accounted_;  ///< by sender: sequence numbers
  std::map<std::uint16_t, std::uint64_t> first_complete_;          ///< by sender: the number to begin at
};

}  // namespace troupe::analysis
