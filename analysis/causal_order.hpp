// An order of messages in which whatever could have influenced another comes before it.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/alignment.hpp"
#include "analysis/causality.hpp"

namespace troupe::analysis {

/// A message being sent, which is when it gets what it holds, or being handled, which has its place among what the
/// receiver handles.
struct message_moment {
  std::uint32_t pair = 0;
  bool handled = false;
};

/// All moments of pairs, as A has them ordered: a message is sent after what its sender sent before, and after its
/// trigger (causality::trigger) was handled; it is handled after it was sent, and after what its receiver handled
/// before. Of moments that this leaves open the lower step comes first, then the sender's number: no clock counts
/// (Kahn's topological sort). What only B has comes after what B has before it. `a` and `b` are of the pairs'
/// recordings.
std::vector<message_moment> causal_order(const causality& a, const causality& b, std::span<const message_pair> pairs);

}  // namespace troupe::analysis
