// What actors say to each other. Every message starts with a header; every response that is traced does too.
// Kept free of models: settings and module arguments travel as named text, numbers as tensors and blobs.

#pragma once

#include <caf/typed_actor.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/blob.hpp"
#include "protocol/header.hpp"
#include "protocol/tensor.hpp"
#include "protocol/type_ids.hpp"

namespace troupe {

/// Named text arguments, in the order given.
using arguments = std::vector<std::pair<std::string, std::string>>;

// -- parameter server ---------------------------------------------------------

using parameter_server_actor =
    caf::typed_actor<caf::result<module_ref>(instantiate), caf::result<rows>(lookup), caf::result<void>(gradient),
                     caf::result<squared_norm>(gradient_norm), caf::result<committed>(optimizer_step),
                     caf::result<parameter_list>(parameters), caf::result<module_state>(state_dict),
                     caf::result<committed>(load_state_dict), caf::result<tensor>(row_digests),
                     caf::result<saved_module>(save_module), caf::result<committed>(restore_module),
                     caf::result<void>(release)>;

/// A module to be made on a server: a registered type and its arguments.
struct module_spec {
  std::string type;
  arguments args;
};

/// Makes a module; one of `shards` parts of it, when it is spread over several servers.
struct instantiate {
  header head;
  module_spec spec;
  std::uint32_t shard = 0;
  std::uint32_t shards = 1;
  /// Trainers whose gradients make up an optimizer step.
  std::uint32_t trainers = 1;
  /// Batches of each trainer, and so global steps, that make up an optimizer step.
  std::uint32_t accumulate = 1;
  /// Optimizer steps that the rows of a lookup may lack; any_staleness: gradients are applied as they come.
  std::uint32_t staleness = 0;
  /// Global steps that the run has done already.
  std::uint64_t steps_done = 0;
};

/// A reference to (one shard of) a remote module.
struct module_ref {
  header head;
  parameter_server_actor server;
  std::uint64_t module = 0;
  std::uint32_t shard = 0;
  std::uint32_t shards = 1;
  /// The server's rank.
  std::uint32_t rank = 0;
};

/// Rows wanted of one table. Indices are rows of the server's shard.
struct bag_lookup {
  std::uint64_t module = 0;
  blob indices;  ///< i64
  blob offsets;  ///< i64, one for each bag; empty: the rows themselves are wanted, one for each index
  blob weights;  ///< f32, one for each index, or empty
};

/// Asks for rows as the optimizer steps before step head.step have left them, all but the last `staleness` of these;
/// parked until then.
struct lookup {
  header head;
  std::vector<bag_lookup> tables;
  std::uint32_t staleness = 0;
  /// As what the rows are to travel: f32, f16 or bf16.
  dtype type = dtype::f32;
};

/// For each table looked up, its pooled rows [bags, dim], or its rows [indices, dim], as the lookup's type.
struct rows {
  header head;
  std::vector<tensor> tables;
  /// Optimizer steps before head.step that the rows lack.
  std::uint32_t missing = 0;
};

/// One table's gradient: with respect to the pooled rows, or (offsets empty) to each of the rows given by the indices.
/// Of f32, f16 or bf16.
struct bag_gradient {
  std::uint64_t module = 0;
  blob indices;
  blob offsets;
  blob weights;
  tensor grad;
};

/// One trainer's table gradients of one batch in the context (head.run, head.step). No answer: a lookup of the next
/// step waits until every trainer's gradients have been applied.
struct gradient {
  header head;
  std::uint32_t rank = 0;
  /// False if the trainer's data have run out: it takes part with no gradient and does not count in the mean.
  bool has_batch = true;
  /// The optimizer step rides on this gradient.
  bool step = true;
  std::vector<bag_gradient> tables;
};

/// Asks for the squared norm of the step's gradient in this server's modules, as the optimizer would see it. Answered
/// when every trainer, whose gradients are then all here, has asked.
struct gradient_norm {
  header head;
  std::uint32_t rank = 0;
};

/// The limbs of an `exact_sum`, so that servers' sums add up to the same bits however the rows are spread.
struct squared_norm {
  header head;
  blob limbs;  ///< i64
};

/// The trainer's gradients of this context are complete. Answered when every trainer's are and the step has been
/// applied, or left out if `apply` is false. All trainers must say the same.
struct optimizer_step {
  header head;
  std::uint32_t rank = 0;
  bool apply = true;
  /// On the gradient, to clip it.
  float factor = 1;
};

struct committed {
  header head;
};

/// Asks what a module's parameters are.
struct parameters {
  header head;
  std::uint64_t module = 0;
};

struct parameter_info {
  std::string name;
  dtype type = dtype::f32;
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;
};

struct parameter_list {
  header head;
  std::vector<parameter_info> items;
};

/// Asks for a module's weights and optimizer state as they are after step head.step.
struct state_dict {
  header head;
  std::uint64_t module = 0;
};

struct module_state {
  header head;
  std::vector<std::pair<std::string, tensor>> entries;
};

/// Replaces the entries given; names and shapes as `state_dict` returns them.
struct load_state_dict {
  header head;
  std::uint64_t module = 0;
  std::vector<std::pair<std::string, tensor>> entries;
};

/// The most rows of whose digests one message asks.
constexpr std::uint64_t row_digests_max = 65'536;

/// Asks for the digest of each row's bits after step head.step, of `rows` rows of the shard from `first_row` on.
struct row_digests {
  header head;
  std::uint64_t module = 0;
  std::uint64_t first_row = 0;
  std::uint64_t rows = 0;
};

/// Writes a module's weights and optimizer state, as they are after step head.step, to a file in `folder`.
struct save_module {
  header head;
  std::uint64_t module = 0;
  std::string folder;
};

/// The file that was written.
struct saved_module {
  header head;
  std::string name;
  std::uint64_t length = 0;
  std::string digest;
};

/// Reads a module's weights and optimizer state from the checkpoint after step `step` in `directory`.
struct restore_module {
  header head;
  std::uint64_t module = 0;
  std::string directory;
  std::uint64_t step = 0;
};

/// The module is not needed any more.
struct release {
  header head;
  std::uint64_t module = 0;
};

// -- allreduce group ----------------------------------------------------------

/// One rank's share of a bucket. Answered when every rank's is there.
struct reduce {
  header head;
  std::uint32_t rank = 0;
  std::uint32_t bucket = 0;
  /// Batches whose gradients are summed in `grad`; 0: zeros of a rank whose data have run out.
  std::uint32_t batches = 1;
  /// This rank wants to end the run after this step; all ranks learn it together.
  bool stop = false;
  tensor grad;
};

/// The mean over all batches, summed in rank order.
struct reduced {
  header head;
  std::uint32_t bucket = 0;
  bool stop = false;
  tensor grad;
};

/// A rank's share of a bucket, or of the slice [first, first + rows of grad) of it, for the group of another process.
struct bucket_share {
  header head;
  std::uint32_t rank = 0;
  std::uint32_t bucket = 0;
  std::uint32_t batches = 1;
  bool stop = false;
  std::uint64_t first = 0;
  /// Parameters in the whole bucket.
  std::uint64_t count = 0;
  /// Empty: zeros.
  tensor grad;
};

/// The slice of a bucket that the sending process sums up for all: the mean over all batches.
struct bucket_sum {
  header head;
  std::uint32_t bucket = 0;
  std::uint64_t first = 0;
  tensor grad;
};

/// The group of one process: takes its own ranks' shares, and exchanges with the groups of other processes.
using allreduce_actor =
    caf::typed_actor<caf::result<reduced>(reduce), caf::result<void>(bucket_share), caf::result<void>(bucket_sum)>;

// -- trainer ------------------------------------------------------------------

/// Whom trainers report to.
using report_actor = caf::typed_actor<caf::result<void>(progress), caf::result<void>(epoch_report),
                                      caf::result<void>(evaluation), caf::result<committed>(save_dense)>;

/// Where a trainer goes on from.
struct trainer_position {
  std::uint64_t steps_done = 0;
  /// Of this rank, in the epoch under way.
  std::uint64_t samples = 0;
  double loss_sum = 0;
  double seconds = 0;
  /// The dense weights and the optimizer's buffers, flat; empty: initial ones.
  std::vector<tensor> dense;
  /// The last finished epoch has been evaluated.
  bool evaluated = false;
};

/// Runs a job's training loop as rank `rank` of `trainers`. Answered when the loop has ended.
struct train {
  header head;
  std::uint32_t rank = 0;
  std::uint32_t trainers = 1;
  arguments job;
  /// The shards of each table, by shard number.
  std::vector<std::vector<module_ref>> tables;
  allreduce_actor group;
  report_actor reports;
  trainer_position from;
  /// A checkpoint is taken at the end, and every `checkpoint_every` steps (0: not before the end).
  bool saves = false;
  std::uint64_t checkpoint_every = 0;
};

struct trained {
  header head;
  std::uint64_t steps = 0;
  bool stopped = false;
  tensor dense;                    ///< rank 0 only: the dense weights, for each linear layer weight then bias
  std::uint64_t dense_digest = 0;  ///< of the dense weights' bits
};

/// Rank 0 tells where it is, a few times a second.
struct progress {
  header head;
  std::uint64_t samples = 0;  ///< this rank's, since the epoch began
  double seconds = 0;         ///< since the epoch began
  double loss_sum = 0;        ///< sum over samples since the last report
  std::uint64_t loss_samples = 0;
};

struct epoch_report {
  header head;
  std::uint32_t rank = 0;
  std::uint64_t epoch = 0;
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;
  double seconds = 0;
  double loss_sum = 0;              ///< sum over the samples of the epoch
  tensor losses;                    ///< f64 [steps], NaN where the rank had no batch
  bool evaluates = false;           ///< an `evaluation` of this epoch follows
  std::uint64_t skipped = 0;        ///< optimizer steps that all ranks left out for a NaN or Inf
  std::uint64_t lookups = 0;        ///< answers to this rank's lookups for training
  std::uint64_t staleness_sum = 0;  ///< optimizer steps that their rows lacked, summed up
  std::uint32_t staleness_max = 0;  ///< and the most that any lacked
};

/// One rank's share of the test rows after an epoch.
struct evaluation {
  header head;
  std::uint32_t rank = 0;
  std::uint64_t epoch = 0;
  std::uint64_t rows = 0;      ///< rows whose class was predicted
  std::uint64_t correct = 0;   ///< rows whose most likely class is the true one
  tensor scores;               ///< f32 [rows], binary targets only: grows with the probability of the positive class
  tensor labels;               ///< f32 [rows], 0 or 1
  double log_loss_sum = 0;     ///< sum over the rows; NaN: none
  double probability_sum = 0;  ///< binary targets only: of the positive class, sum over the rows
};

/// A trainer has come to a step after which a checkpoint is taken. Answered when that is over, so that it can go on.
struct save_dense {
  header head;
  std::uint32_t rank = 0;
  /// Of this rank, in the epoch under way; zeros if it has ended.
  std::uint64_t samples = 0;
  double loss_sum = 0;
  double seconds = 0;
  std::uint64_t skipped = 0;
  /// Rank 0 only: the dense weights and the optimizer's buffers, flat.
  std::vector<tensor> dense;
};

using trainer_actor = caf::typed_actor<caf::result<trained>(train), caf::result<void>(stop)>;

// -- master -------------------------------------------------------------------

/// The next that is free.
constexpr std::uint32_t any_rank = UINT32_MAX;

struct join_server {
  header head;
  parameter_server_actor server;
  std::uint32_t rank = any_rank;
};

struct join_trainer {
  header head;
  trainer_actor trainer;
  std::uint32_t rank = any_rank;
};

struct joined {
  header head;
  std::uint32_t rank = 0;
};

/// Runs the job on those who have joined. Answered with the result, or with the error that ended the run.
struct run {
  header head;
  arguments job;
  bool return_weights = false;
};

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
  std::vector<tensor> tables;  ///< if asked for: every table [rows, dim]
  tensor dense;                ///< if asked for
  std::optional<double> log_loss;
  std::optional<double> calibration;
  std::uint64_t skipped_steps = 0;
  std::uint32_t staleness_max = 0;
  double staleness_mean = 0;
};

struct status {
  header head;
};

struct run_status {
  header head;
  std::string phase;
  std::uint64_t step = 0;
  std::uint64_t total_steps = 0;
  std::uint32_t servers = 0;
  std::uint32_t trainers = 0;
};

/// Finish the step under way, then end the run.
struct stop {
  header head;
};

// -- nodes: the processes of a run over several ----------------------------------

/// A process with servers or trainers, as the others need to know it.
struct peer_node {
  std::uint32_t node = 0;
  /// How often its place has been taken anew.
  std::uint32_t incarnation = 0;
  /// For error lines, as in `server 0 (host a, pid 17)`.
  std::string name;
  bool trains = false;  ///< has trainers, else servers
  std::vector<std::uint32_t> ranks;
  std::string address;  ///< where it accepts data links
};

/// Whom to expect, oneself among them. Answered when links from them would be accepted.
struct expect_peers {
  header head;
  std::vector<peer_node> peers;
};

/// Make the data links to those peers. Answered when all are there.
struct connect_peers {
  header head;
};

/// Actors in the process that answers: what its trainers take for the servers, by rank, and for the group.
struct connected {
  header head;
  std::vector<parameter_server_actor> servers;
  allreduce_actor group;
};

/// The run has ended, well or not; the node may go.
struct run_over {
  header head;
  bool done = false;
  std::string words;  ///< if not done: the line that says why
};

using node_actor = caf::typed_actor<caf::result<committed>(expect_peers), caf::result<connected>(connect_peers),
                                    caf::result<void>(run_over)>;

/// A process offers to take part in a run. Refused with the reason, or answered with what it is to be.
struct join_node {
  header head;
  bool trains = false;
  std::uint32_t count = 1;
  std::uint32_t rank = any_rank;  ///< the first, if it matters
  std::string name;               ///< nobody else's; empty: none
  std::string host;
  std::uint64_t pid = 0;
  std::string address;  ///< where it accepts data links
  std::string session;  ///< of its control connection
  arguments job;        ///< what it believes the job to be; empty: no opinion
  node_actor node;
};

struct admitted {
  header head;
  std::uint64_t run = 0;
  std::uint32_t node = 0;
  std::uint32_t incarnation = 0;
  std::vector<std::uint32_t> ranks;
  std::uint32_t servers = 0;
  std::string resume;  ///< what to run to go on from the last checkpoint, if the run ends early
};

/// A control connection has ended.
struct node_lost {
  header head;
  std::string session;
  std::string why;  ///< empty: on purpose
};

/// Those who are missing will not come: ends a run that has not begun.
struct give_up {
  header head;
  std::string words;
};

/// A node tells that it has lost a peer. The master may know better why.
struct link_lost {
  header head;
  std::uint32_t node = 0;
  std::uint32_t peer = 0;
  std::string why;
};

using master_actor =
    caf::typed_actor<caf::result<joined>(join_server), caf::result<joined>(join_trainer), caf::result<run_result>(run),
                     caf::result<run_status>(status), caf::result<void>(stop), caf::result<void>(progress),
                     caf::result<void>(epoch_report), caf::result<void>(evaluation), caf::result<committed>(save_dense),
                     caf::result<admitted>(join_node), caf::result<void>(node_lost), caf::result<void>(link_lost),
                     caf::result<void>(give_up)>;

}  // namespace troupe
