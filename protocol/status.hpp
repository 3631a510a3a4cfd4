// The current state of a run, for status queries: its members, its phase, and which actor waits for which.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/blob.hpp"
#include "protocol/describe.hpp"
#include "protocol/header.hpp"

namespace troupe::msg {

/// Asks an actor of a run for its status. Changes nothing, and may arrive at any time.
struct actor_query {
  header head;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(actor_query, (), (head))

/// Something an actor needs before it can continue.
struct wait_status {
  /// The actor that waits; empty: the run as a whole.
  std::string who;
  /// What it waits for, e.g. `rows`, `gradients`, `bucket 0`.
  std::string what;
  /// The step of the wait; 0: none.
  std::uint64_t step = 0;
  /// The actor that has to send it, e.g. `server 1`; empty: unknown.
  std::string on;
};
BOOST_DESCRIBE_STRUCT(wait_status, (), (who, what, step, on))

/// Messages that are held until they can continue. Shown as `lookups parked: 3`.
struct queue_status {
  std::string name;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;  ///< 0: not counted
  /// The number of the actor that sent them; 0: several senders, or none.
  std::uint32_t sender = 0;
};
BOOST_DESCRIBE_STRUCT(queue_status, (), (name, messages, bytes, sender))

/// The status of one actor.
struct actor_status {
  header head;
  /// E.g. `trainer 0`.
  std::string name;
  /// An actor that is too busy to answer is in phase `computing`.
  std::string phase;
  /// The current step, or the last finished one.
  std::uint64_t step = 0;
  std::vector<wait_status> waits;
  std::vector<queue_status> queues;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(actor_status, (), (head, name, phase, step, waits, queues))

/// A process of the run.
struct node_status {
  bool trains = false;  ///< true: has trainers; false: servers
  std::vector<std::uint32_t> ranks;
  std::string host;
  std::uint64_t pid = 0;
  std::string name;  ///< given by the user; empty: none
  /// Messages not yet sent to its peers.
  std::vector<queue_status> links;
};
BOOST_DESCRIBE_STRUCT(node_status, (), (trains, ranks, host, pid, name, links))

/// Asks the master for the status of the run. Answered when its members have answered or timed out.
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
  /// Members that have joined.
  std::uint32_t servers = 0;
  std::uint32_t trainers = 0;
  /// The rate since the current epoch began; null: no progress report yet.
  std::optional<double> samples_per_s;
  std::optional<double> steps_per_s;
  /// The age of the last progress report.
  std::optional<double> progress_age_s;
  std::vector<node_status> nodes;
  std::vector<actor_status> actors;  ///< servers, then trainers
  std::vector<wait_status> waits;    ///< of all actors, each with its last known cause
  /// The last diagnosis: its verdict, and where it is stored; empty: there was none.
  std::string diagnosis;
  /// The number of this attempt at the run, and the failure of the previous one.
  std::uint64_t attempt = 1;
  std::string lost;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(run_status, (),
                      (head, phase, step, total_steps, servers, trainers, samples_per_s, steps_per_s, progress_age_s,
                       nodes, actors, waits, diagnosis, attempt, lost))

// -- diagnosis: the recordings of all processes, collected when something takes too long -------------------------

/// Reports to the master that something takes too long, or that a user requests a diagnosis.
struct trouble {
  header head;
  std::string words;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(trouble, (), (head, words))

/// Asks a process for its recording.
struct evidence_query {
  header head;
  std::string boot;  ///< boot id of the asker: a process on the same machine need not send its ring

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(evidence_query, (), (head, boot))

struct evidence {
  header head;
  std::string file;  ///< the name of its ring file
  blob ring;         ///< the ring's current bytes; empty: the file is on the asker's machine
  std::string folder;
  std::string stacks;  ///< the stacks of its threads

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

/// The verdict of a diagnosis, shown in answers to status queries.
struct verdict_found {
  header head;
  std::string words;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(verdict_found, (), (head, words))

}  // namespace troupe::msg
