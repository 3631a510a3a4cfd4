// Pairs the messages of two recordings, and puts the pairs into causal order.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trace/analysis/causality.hpp"

namespace troupe::analysis {

/// A handled message in two recordings, or in only one of them.
struct message_pair {
  const trace::event* a = nullptr;
  const trace::event* b = nullptr;

  bool is_whole() const { return a != nullptr && b != nullptr; }
  /// A's record of it, or else B's.
  const trace::event& any() const { return a != nullptr ? *a : *b; }
};

struct alignment {
  std::vector<message_pair> pairs;
  /// One run was in one process, the other in several. Between processes `lookup`, `rows` and `gradient` hold each row
  /// once, so their contents are not comparable.
  bool other_forms = false;
  std::vector<std::string> notes;  ///< what is not compared and why, for the user
};

/// Pairs handled messages by receiver, sender (both by name), type, step (and bucket), and their number among these in
/// the order in which they were sent. The recordings must outlive it.
///
/// Left out, with a note where the user may expect them:
/// - messages whose number depends on the time that a run takes, or on how it is spread over processes
///   (comparable::no);
/// - messages to and from actors that only one of the recordings has. The allreduce group counts as one actor, without
///   the messages between its parts, if the runs were spread differently;
/// - steps that are incomplete because the beginning of a ring has been overwritten;
/// - if neither run ended cleanly, messages after the end of one of them;
/// - messages that only one has, if the other's recorder filtered, or could not keep up.
alignment align(const trace::recording& a, const trace::recording& b);

/// The sending of a message, which fixes its contents, or its handling, which fixes its position in the receiver's
/// order.
struct message_moment {
  std::uint32_t pair = 0;
  bool handled = false;
};

/// All moments of the pairs in an order in which each cause comes before its effects (Kahn's topological sort). By A's
/// records, a message is sent after the messages that its sender sent before, and after its trigger
/// (causality::trigger) was handled; it is handled after it was sent, and after the messages that its receiver handled
/// before. A message that only B has comes after its predecessors in B. Otherwise the lower step comes first, then the
/// lower sender; clocks do not count. Requires: `a` and `b` index the pairs' recordings.
std::vector<message_moment> causal_order(const causality& a, const causality& b, std::span<const message_pair> pairs);

}  // namespace troupe::analysis
