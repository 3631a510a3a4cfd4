// The messages between actors. Every message starts with a header; so does every response that is traced. Messages are
// independent of models: settings and module arguments travel as named text, numbers as tensors and blobs. This file:
// messages to the master and to nodes, i.e. the processes of a distributed run.

#pragma once

#include <caf/typed_actor.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/collective_messages.hpp"
#include "protocol/describe.hpp"
#include "protocol/header.hpp"
#include "protocol/part_messages.hpp"
#include "protocol/server_messages.hpp"
#include "protocol/status.hpp"
#include "protocol/tensor.hpp"
#include "protocol/training_messages.hpp"
#include "protocol/type_ids.hpp"

namespace troupe::msg {

// -- master -------------------------------------------------------------------

/// Requests the next free rank.
constexpr std::uint32_t any_rank = UINT32_MAX;

struct join_server {
  header head;
  parameter_server_actor server;
  std::uint32_t rank = any_rank;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(join_server, (), (head, server, rank))

struct join_trainer {
  header head;
  trainer_actor trainer;
  std::uint32_t rank = any_rank;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(join_trainer, (), (head, trainer, rank))

struct joined {
  header head;
  std::uint32_t rank = 0;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(joined, (), (head, rank))

/// Runs the job on the actors that have joined. Answered with the result, or with the error that ended the run.
struct run {
  header head;
  arguments job;
  bool return_weights = false;

  static constexpr message_traits traits{.diff = comparable::parts};
};
BOOST_DESCRIBE_STRUCT(run, (), (head, job, return_weights))

/// A figure of a run by its name; null: it is not defined.
struct named_figure {
  std::string name;
  std::optional<double> value;
};
BOOST_DESCRIBE_STRUCT(named_figure, (), (name, value))

struct run_result {
  header head;
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;
  double setup_seconds = 0;
  double seconds = 0;
  double loss = 0;
  std::optional<double> auc;
  std::optional<double> accuracy;
  bool stopped = false;
  std::string weights_digest;
  std::vector<tensor> tables;  ///< with `return_weights`: every table [rows, dim]
  tensor dense;                ///< with `return_weights`
  std::optional<double> log_loss;
  std::optional<double> calibration;
  std::uint64_t skipped_steps = 0;
  std::uint32_t staleness_max = 0;
  double staleness_mean = 0;
  std::optional<double> test_loss;
  std::optional<double> rmse;
  std::uint32_t goes_on_with = 0;  ///< not 0: an elastic run continues with this number of trainers, in another attempt
  std::vector<named_figure> own;   ///< metrics that the program has added
  std::optional<double> bubble;    ///< the idle share of the stages' time

  static constexpr message_traits traits{.added = 2, .unrecorded = 1};
};
BOOST_DESCRIBE_STRUCT(run_result, (),
                      (head, steps, samples, setup_seconds, seconds, loss, auc, accuracy, stopped, weights_digest,
                       tables, dense, log_loss, calibration, skipped_steps, staleness_max, staleness_mean, test_loss,
                       rmse, goes_on_with, own, bubble))

/// Asks to finish the current step, then end the run.
struct stop {
  header head;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(stop, (), (head))

/// Asks to finish the current step, then continue with this number of trainers. Answered once the run has accepted
/// this, or refused.
struct scale {
  header head;
  std::uint32_t trainers = 0;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(scale, (), (head, trainers))

// -- nodes: the processes of a distributed run -----------------------------------

/// A process with servers or trainers, described for its peers.
struct peer_node {
  std::uint32_t node = 0;
  /// How many processes have had this node number before.
  std::uint32_t incarnation = 0;
  /// For error lines, e.g. `server 0 (host a, pid 17)`.
  std::string name;
  bool trains = false;  ///< true: has trainers; false: servers
  std::vector<std::uint32_t> ranks;
  std::string address;  ///< where it accepts data links
  /// The fingerprint of the certificate that it presented to the master; empty: none.
  std::string certificate = {};
};
BOOST_DESCRIBE_STRUCT(peer_node, (), (node, incarnation, name, trains, ranks, address, certificate))

/// The peers to expect, including the receiver. Answered when the node would accept their links, and its servers could
/// write to `save_folder`.
struct expect_peers {
  header head;
  std::vector<peer_node> peers;
  std::string save_folder;    ///< the master's folder, in which the servers try to write; empty: nothing is saved
  bool servers_talk = false;  ///< servers need links to each other
  std::uint32_t parts = 1;    ///< the parts of each replica of the network: a trainer has one of them

  static constexpr message_traits traits{.diff = comparable::no, .added = 1};
};
BOOST_DESCRIBE_STRUCT(expect_peers, (), (head, peers, save_folder, servers_talk, parts))

/// Asks a node to connect its data links to those peers. Answered when all links are up.
struct connect_peers {
  header head;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(connect_peers, (), (head))

/// The allreduce group of a part of replicas other than the first, and its actor number.
struct part_group {
  std::uint32_t part = 0;
  std::uint32_t number = 0;
  allreduce_actor group;
};
BOOST_DESCRIBE_STRUCT(part_group, (), (part, number, group))

/// Local actors in the answering process that stand in for the servers, by rank, and for the group.
struct connected {
  header head;
  std::vector<parameter_server_actor> servers;
  allreduce_actor group;
  /// The group's actor number.
  std::uint32_t group_number = 1;
  /// The groups of the process's trainers that have another part of the network; `group` is the first part's.
  std::vector<part_group> other_parts = {};

  static constexpr message_traits traits{.diff = comparable::no, .added = 1};
};
BOOST_DESCRIBE_STRUCT(connected, (), (head, servers, group, group_number, other_parts))

/// The node must also host these ranks: their processes were lost, and no other has joined for them.
struct host_ranks {
  header head;
  std::vector<std::uint32_t> ranks;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(host_ranks, (), (head, ranks))

/// The run, or this attempt at it, has ended, with success or not. The node may exit.
struct run_over {
  header head;
  bool done = false;
  std::string words;   ///< if not done, or another attempt follows: the reason in one line
  bool again = false;  ///< another attempt follows: the node must come back to the master

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(run_over, (), (head, done, words, again))

using node_actor = caf::typed_actor<caf::result<committed>(expect_peers), caf::result<connected>(connect_peers),
                                    caf::result<void>(host_ranks), caf::result<void>(run_over),
                                    caf::result<actor_status>(actor_query), caf::result<evidence>(evidence_query)>;

/// A process asks to join a run. Answered with its node number and ranks, or refused with the reason.
struct join_node {
  header head;
  bool trains = false;
  std::uint32_t count = 1;
  std::uint32_t rank = any_rank;  ///< the first rank it wants, or any_rank
  std::string name;               ///< unique within the run; empty: none
  std::string host;
  std::uint64_t pid = 0;
  std::string address;  ///< where it accepts data links
  std::string session;  ///< the id of its control connection
  arguments job;        ///< the job as the node knows it; empty: unknown
  node_actor node;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(join_node, (), (head, trains, count, rank, name, host, pid, address, session, job, node))

struct admitted {
  header head;
  std::uint64_t run = 0;
  std::uint32_t node = 0;
  std::uint32_t incarnation = 0;
  std::vector<std::uint32_t> ranks;
  std::uint32_t servers = 0;
  std::string resume;  ///< the command that resumes from the last checkpoint if the run ends early
  /// Where to compute if the node's user chose `auto`: on CUDA devices or the processor, and why; no reason: the node
  /// decides.
  bool on_devices = true;
  std::string device_reason = {};
  /// How long the node tries to come back if the run or its master is lost; 0: it does not.
  std::uint64_t rejoin_ms = 0;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(admitted, (),
                      (head, run, node, incarnation, ranks, servers, resume, on_devices, device_reason, rejoin_ms))

/// A control connection has ended.
struct node_lost {
  header head;
  std::string session;
  std::string why;  ///< empty: closed on purpose

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(node_lost, (), (head, session, why))

/// The missing members will not join: ends a run that has not begun.
struct give_up {
  header head;
  std::string words;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(give_up, (), (head, words))

/// A node reports that it has lost a peer. The master may know the cause better.
struct link_lost {
  header head;
  std::uint32_t node = 0;
  std::uint32_t peer = 0;
  std::string why;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(link_lost, (), (head, node, peer, why))

using master_actor =
    caf::typed_actor<caf::result<joined>(join_server), caf::result<joined>(join_trainer), caf::result<run_result>(run),
                     caf::result<run_status>(status), caf::result<void>(stop), caf::result<void>(scale),
                     caf::result<void>(progress), caf::result<void>(epoch_report), caf::result<void>(evaluation),
                     caf::result<committed>(save_dense), caf::result<admitted>(join_node), caf::result<void>(node_lost),
                     caf::result<void>(link_lost), caf::result<void>(give_up), caf::result<void>(trouble),
                     caf::result<collected_evidence>(collect_evidence), caf::result<void>(verdict_found)>;

}  // namespace troupe::msg
