// What led to a message: the chain of its causes, and all that could have influenced it.

#pragma once

#include <boost/json/object.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analysis/causality.hpp"

namespace troupe::analysis {

/// A message of a chain of causes.
struct hop {
  std::uint64_t id = 0;
  /// Its record as handled; else as arrived or sent, and then it has no times but those of that.
  const trace::event* message = nullptr;
  bool released = false;          ///< it answers a request that had been parked, and this is what its trigger set free
  trace::nanoseconds wire = 0;    ///< sent to arrived
  trace::nanoseconds waited = 0;  ///< arrived to begun
  trace::nanoseconds worked = 0;  ///< begun to ended
  trace::nanoseconds into = 0;    ///< how long its sender had worked when it sent it
};

struct cause_chain {
  enum class start : std::uint8_t {
    step,     ///< the last hop is of an earlier step, which the message's step builds on
    actor,    ///< nobody asked the sender of the last hop for it
    unknown,  ///< the cause of the last hop is not recorded
  };
  std::vector<hop> hops;  ///< the message itself first
  start begins = start::unknown;
  std::uint64_t missing = 0;  ///< unknown: the cause that is not recorded
};

/// The causes of `id`, which must be recorded, back to where its step begins. For an answer that had been parked the
/// cause is what released it.
cause_chain find_causes(const causality& of, std::uint64_t id);
std::string causes_text(const causality& of, const cause_chain& chain, std::size_t limit);
boost::json::object causes_json(const causality& of, const cause_chain& chain);

/// Everything that could have influenced a message.
struct influence {
  std::uint64_t id = 0;
  std::uint64_t step = 0;
  struct part {
    std::uint16_t actor = 0;
    std::vector<const trace::event*> messages;  ///< that the actor handled, the latest first
    bool reaches_back = false;                  ///< to before the first that is recorded: it may have had more
  };
  std::vector<part> actors;  ///< by number
  std::uint64_t messages = 0;
};

/// Its causes, what their senders had handled before they sent them, and so on: of each actor everything from its first
/// message of that step on; for a message outside of any step, as far as records go. `id` must be recorded.
influence find_influence(const causality& of, std::uint64_t id);
std::string influence_text(const causality& of, const influence& cone, std::size_t limit);
boost::json::object influence_json(const causality& of, const influence& cone, std::size_t limit);

}  // namespace troupe::analysis
