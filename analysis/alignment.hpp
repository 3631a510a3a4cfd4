// Which message of one recording is which of another.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analysis/causality.hpp"

namespace troupe::analysis {

/// A handled message as two recordings have it; one of them may not.
struct message_pair {
  const trace::event* a = nullptr;
  const trace::event* b = nullptr;

  /// What either says of it.
  const trace::event& any() const { return a != nullptr ? *a : *b; }
};

struct alignment {
  std::vector<message_pair> pairs;
  /// One ran in one process, the other in several, between which `lookup`, `rows` and `gradient` hold each row once:
  /// they are there, but not alike.
  bool other_forms = false;
  std::vector<std::string> notes;  ///< what is not compared, and why: for the user
};

/// Pairs handled messages by receiver, sender (both by name), type, step (and bucket), and their number among these in
/// the order in which they were sent. The recordings must outlive it.
///
/// Left out, with a note where the user may expect them:
/// - messages whose number depends on the time that a run takes, or on how it is spread over processes
///   (comparable::no);
/// - messages to and from actors that only one of the recordings has. The allreduce group counts as one actor, without
///   what its parts tell each other, if the runs were spread differently;
/// - steps that are not whole in a ring of which the beginning has been overwritten;
/// - if neither run ended cleanly, what comes after the end of one of them;
/// - messages that only one has, if the other's recorder was told to filter, or could not keep up.
alignment align(const trace::recording& a, const trace::recording& b);

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
