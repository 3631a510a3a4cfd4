// Describes the end of a chain of waits in one line.

#pragma once

#include <set>
#include <string>
#include <vector>

#include "trace/analysis/blocked.hpp"

namespace troupe::analysis {

/// The end of a chain of waits, and the actors whose chains lead to it.
struct end_of_chain {
  blockage what = blockage::none;
  const wait_edge* last = nullptr;
  std::set<std::uint16_t> waiters;
};

/// Requires: the recording and its waits outlive it.
class blocked_sentences {
 public:
  blocked_sentences(const trace::recording& run, const std::vector<wait_edge>& waits)
      : run_(run), waits_(waits), now_(run.end()) {}

  std::string of(const end_of_chain& end) const;
  /// `handler running for 3.2 s (gradient, step 12)`; for a trainer of a user's program `in its own function or loop
  /// for 3.2 s (after reduced, step 12)`. Requires: the actor is at work.
  std::string work_of(std::uint16_t actor) const;

 private:
  const wait_edge* call_on(std::uint16_t actor) const;
  std::string of_call(const wait_edge& one) const;
  std::string place_of(std::uint16_t actor, const std::string& name) const;
  bool is_in_own_code(std::uint16_t actor) const;
  bool is_silent_since(const wait_edge& one) const;
  std::string name_or_some(const wait_edge& one) const;
  std::string subject_of_message(const wait_edge& one) const;

  const trace::recording& run_;
  const std::vector<wait_edge>& waits_;
  const trace::nanoseconds now_;
};

}  // namespace troupe::analysis
