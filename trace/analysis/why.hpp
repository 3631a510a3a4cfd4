// What led to a message: the chain of its causes, and all messages that could have influenced it.

#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trace/analysis/causality.hpp"

namespace troupe::analysis {

/// A message of a chain of causes.
struct hop {
  std::uint64_t id = 0;
  /// Its record as handled, or else as arrived or sent; then the times below are 0.
  const trace::event* message = nullptr;
  bool released = false;          ///< it answers a request that had been parked until its trigger came
  trace::nanoseconds wire = 0;    ///< sent to arrived
  trace::nanoseconds waited = 0;  ///< arrived to begun
  trace::nanoseconds worked = 0;  ///< begun to ended
  trace::nanoseconds into = 0;    ///< from the begin of its sender's activity to its sending
};

struct cause_chain {
  enum class start : std::uint8_t {
    step,     ///< the last hop is of an earlier step
    actor,    ///< no message caused the last hop
    unknown,  ///< the cause of the last hop is not recorded
  };
  std::vector<hop> hops;  ///< the message itself first
  start begins = start::unknown;
  std::uint64_t missing = 0;  ///< unknown: the cause that is not recorded
};

/// The causes of `id` back to the begin of its step. The cause of a parked answer is the message that released it.
/// Requires: `id` is recorded.
cause_chain find_causes(const causality& of, std::uint64_t id);
std::string causes_text(const causality& of, const cause_chain& chain, std::size_t limit);
boost::json::object causes_json(const causality& of, const cause_chain& chain);

/// All messages that could have influenced a message.
struct influence {
  std::uint64_t id = 0;
  std::uint64_t step = 0;
  struct part {
    std::uint16_t actor = 0;
    std::vector<const trace::event*> messages;  ///< handled by the actor, the latest first
    bool reaches_back = false;                  ///< earlier ones may exist whose records were overwritten
  };
  std::vector<part> actors;  ///< by number
  std::uint64_t messages = 0;
};

/// The causes of `id`, what their senders had handled before they sent them, and so on: for each actor from its first
/// activity of the step on; for a message outside of any step, as far back as records go. Requires: `id` is recorded.
influence find_influence(const causality& of, std::uint64_t id);
std::string influence_text(const causality& of, const influence& what, std::size_t limit);
boost::json::object influence_json(const causality& of, const influence& what, std::size_t limit);

}  // namespace troupe::analysis
