// What a run is doing right now, as it is told to whoever asks: who is there, in which phase, and who waits on whom.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/blob.hpp"
#include "protocol/describe.hpp"
#include "protocol/header.hpp"

namespace troupe::msg {

/// Asks an actor of a run how it is. Changes nothing, and may come at any time.
struct actor_query {
  header head;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(actor_query, (), (head))

/// Something that an actor cannot go on without.
struct wait_status {
  /// Whose wait; empty: the run's as a whole.
  std::string who;
  /// As in `rows`, `gradients`, `bucket 0`.
  std::string what;
  /// 0: of no step.
  std::uint64_t step = 0;
  /// Who has to send it, as in `server 1`; empty: nobody who could be named.
  std::string on;
};
BOOST_DESCRIBE_STRUCT(wait_status, (), (who, what, step, on))

/// What lies somewhere until it can go on. In words: `lookups parked: 3`.
struct queue_status {
  std::string name;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;  ///< 0: not counted
  /// The number of the actor whose messages they are; 0: of several, or nobody's.
  std::uint32_t sender = 0;
};
BOOST_DESCRIBE_STRUCT(queue_status, (), (name, messages, bytes, sender))

/// How one actor is.
struct actor_status {
  header head;
  /// As in `trainer 0`.
  std::string name;
  /// `computing` is what an actor is that is too busy to answer.
  std::string phase;
  /// The step under way, or the newest that is done.
  std::uint64_t step = 0;
  std::vector<wait_status> waits;
  std::vector<queue_status> queues;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(actor_status, (), (head, name, phase, step, waits, queues))

/// A process of the run.
struct node_status {
  bool trains = false;  ///< has trainers, else servers
  std::vector<std::uint32_t> ranks;
  std::string host;
  std::uint64_t pid = 0;
  std::string name;  ///< that the user gave it; empty: none
  /// What has not gone to its peers yet.
  std::vector<queue_status> links;
};
BOOST_DESCRIBE_STRUCT(node_status, (), (trains, ranks, host, pid, name, links))

/// Asks the master how the run is. Answered when its members have answered, or had their time.
struct status {
  header head;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(status, (), (head))

struct run_status {
  header head;
  std::string phase;
  std::uint64_t step = 0;
  std::uint64_t total_steps = 0;  ///< 0: not known yet
  /// That have joined.
  std::uint32_t servers = 0;
  std::uint32_t trainers = 0;
  /// Since the epoch under way began; null: no word from training yet.
  std::optional<double> samples_per_s;
  std::optional<double> steps_per_s;
  /// How long ago that word came.
  std::optional<double> progress_age_s;
  std::vector<node_status> nodes;
  std::vector<actor_status> actors;  ///< servers, then trainers
  std::vector<wait_status> waits;    ///< of all of them, each with its last cause that is known
  /// The last diagnosis: its verdict, and where it is; empty: there was none.
  std::string diagnosis;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(run_status, (),
                      (head, phase, step, total_steps, servers, trainers, samples_per_s, steps_per_s, progress_age_s,
                       nodes, actors, waits, diagnosis))

// -- diagnosis: what was recorded, of all processes, when something takes too long -------------------------------

/// Something takes too long, or somebody wants to know: told to the master, in words.
struct trouble {
  header head;
  std::string words;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(trouble, (), (head, words))

/// Asks a process for what it has recorded.
struct evidence_query {
  header head;
  std::string boot;  ///< of whoever asks: a process of the same machine need not send its ring

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(evidence_query, (), (head, boot))

struct evidence {
  header head;
  std::string file;  ///< the name of its ring
  blob ring;         ///< as it is now; empty: it lies on the asker's machine
  std::string folder;
  std::string stacks;  ///< of its threads

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(evidence, (), (head, file, ring, folder, stacks))

/// Asks the master for the evidence of all nodes that answer in time.
struct collect_evidence {
  header head;
  std::string boot;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(collect_evidence, (), (head, boot))

struct collected_evidence {
  header head;
  std::vector<evidence> parts;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(collected_evidence, (), (head, parts))

/// What a diagnosis has found, for those who ask for the status.
struct verdict_found {
  header head;
  std::string words;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(verdict_found, (), (head, words))

}  // namespace troupe::msg
