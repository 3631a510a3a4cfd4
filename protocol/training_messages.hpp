// Messages to and from trainers: the allreduce of the dense part, the training loop and its reports.

#pragma once

#include <caf/typed_actor.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/collective_messages.hpp"
#include "protocol/describe.hpp"
#include "protocol/header.hpp"
#include "protocol/server_messages.hpp"
#include "protocol/tensor.hpp"
#include "protocol/type_ids.hpp"

namespace troupe::msg {

// -- allreduce group ----------------------------------------------------------

/// One rank's share of a bucket. Answered when the shares of all ranks have arrived.
struct reduce {
  header head;
  std::uint32_t rank = 0;
  std::uint32_t bucket = 0;
  /// The number of batches whose gradients are summed in `grad`; 0: zeros, from a rank that has run out of data.
  std::uint32_t batches = 1;
  /// This rank votes to end the run after this step; the answer carries the vote to all ranks in the same step.
  bool stop = false;
  tensor grad;
  /// This rank votes for a checkpoint after this step; the answer carries the vote to all ranks.
  bool save = false;

  static constexpr message_traits traits{.replayed = true, .unrecorded = 1};
};
BOOST_DESCRIBE_STRUCT(reduce, (), (head, rank, bucket, batches, stop, grad, save))

/// The mean gradient over all batches, summed in rank order.
struct reduced {
  header head;
  std::uint32_t bucket = 0;
  bool stop = false;
  tensor grad;
  /// Some rank votes for a checkpoint after this step.
  bool save = false;

  static constexpr message_traits traits{.replayed = true, .diff = comparable::parts, .added = 1};
};
BOOST_DESCRIBE_STRUCT(reduced, (), (head, bucket, stop, grad, save))

/// A rank's share of a bucket, or of its slice [first, first + rows of grad), for the group of another process.
struct bucket_share {
  header head;
  std::uint32_t rank = 0;
  std::uint32_t bucket = 0;
  std::uint32_t batches = 1;
  bool stop = false;
  std::uint64_t first = 0;
  /// The number of parameters in the whole bucket.
  std::uint64_t count = 0;
  /// The share; empty: zeros.
  tensor grad;
  bool save = false;  ///< as in `reduce`

  static constexpr message_traits traits{.via = plane::data, .unrecorded = 1};
};
BOOST_DESCRIBE_STRUCT(bucket_share, (), (head, rank, bucket, batches, stop, first, count, grad, save))

/// The slice of a bucket that the sending process reduces for all: the mean over all batches.
struct bucket_sum {
  header head;
  std::uint32_t bucket = 0;
  std::uint64_t first = 0;
  bool stop = false;  ///< some rank whose share the sender has votes to end the run
  tensor grad;
  bool save = false;  ///< some rank whose share the sender has votes for a checkpoint

  static constexpr message_traits traits{.via = plane::data, .unrecorded = 1};
};
BOOST_DESCRIBE_STRUCT(bucket_sum, (), (head, bucket, first, stop, grad, save))

/// The GPUs that the trainers of the sending group's process use. All groups exchange these before they reduce anything
/// on devices.
struct group_devices {
  header head;
  std::uint32_t process = 0;
  /// The host id by which NCCL distinguishes hosts.
  std::string host;
  std::vector<std::string> uuids;
  /// The id of the NCCL communicator, set by process 0 only.
  blob id;

  static constexpr message_traits traits{.via = plane::data, .diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(group_devices, (), (head, process, host, uuids, id))

/// The allreduce group of one process: collects its own ranks' shares, and exchanges with the groups of other
/// processes.
using allreduce_actor =
    caf::typed_actor<caf::result<reduced>(reduce), caf::result<void>(bucket_share), caf::result<void>(bucket_sum),
                     caf::result<void>(group_devices), caf::result<actor_status>(actor_query)>;

// -- trainer ------------------------------------------------------------------

/// The actor that trainers report to.
using report_actor = caf::typed_actor<caf::result<void>(progress), caf::result<void>(epoch_report),
                                      caf::result<void>(evaluation), caf::result<committed>(save_dense)>;

/// The position from which a trainer resumes.
struct trainer_position {
  std::uint64_t steps_done = 0;
  /// Samples of this rank in the current epoch.
  std::uint64_t samples = 0;
  double loss_sum = 0;
  double seconds = 0;
  /// The dense weights, the optimizer's buffers and the network's buffers, each flat; empty: the initial values.
  std::vector<tensor> dense;
  /// Whether the last finished epoch has been evaluated.
  bool evaluated = false;
};
BOOST_DESCRIBE_STRUCT(trainer_position, (), (steps_done, samples, loss_sum, seconds, dense, evaluated))

/// A tensor's name and shape; a `tensor` has only rows and columns.
struct named_shape {
  std::string name;
  std::vector<std::uint64_t> shape;
};
BOOST_DESCRIBE_STRUCT(named_shape, (), (name, shape))

/// A server, and its rank.
struct server_place {
  std::uint32_t rank = 0;
  parameter_server_actor server;
};
BOOST_DESCRIBE_STRUCT(server_place, (), (rank, server))

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
  /// Checkpoints are taken at the end, and every `checkpoint_every` steps (0: only at the end).
  bool saves = false;
  std::uint64_t checkpoint_every = 0;
  /// The digest of the rows of the master's data set; empty: none.
  std::string data_digest;
  /// Servers and master are in other processes; a request times out after `request_timeout_ms`.
  bool remote = false;
  std::uint64_t request_timeout_ms = 0;
  /// The group's actor number.
  std::uint32_t group_number = 1;
  /// The names of the tensors in `from.dense`, if the trainers decide what is saved; else empty.
  std::vector<named_shape> names = {};
  /// All servers, by rank.
  std::vector<server_place> servers = {};
  /// The seconds after which rank 0 votes for the next checkpoint (0: none by time). With `checkpoint_mtbf`, the mean
  /// time between failures in seconds, the interval follows from the cost of checkpoints.
  double checkpoint_seconds = 0;
  double checkpoint_mtbf = 0;
  /// One blob of u64, with which the trainer need not read all of the data set's files before it begins;
  /// none: it reads them.
  std::vector<blob> row_index = {};

  static constexpr message_traits traits{.diff = comparable::parts, .added = 5};
};
BOOST_DESCRIBE_STRUCT(train, (),
                      (head, rank, trainers, job, tables, group, reports, from, saves, checkpoint_every, data_digest,
                       remote, request_timeout_ms, group_number, names, servers, checkpoint_seconds, checkpoint_mtbf,
                       row_index))

struct trained {
  header head;
  std::uint64_t steps = 0;
  bool stopped = false;
  tensor dense = {};               ///< rank 0 only: the dense weights, then the networks' buffers
  std::uint64_t dense_digest = 0;  ///< digest of the dense weights' bits
  /// The number of steps with gradients for each server, by its rank; empty: `steps` for all.
  std::vector<std::uint64_t> server_steps = {};
  /// In a pipeline: the time from the first pass of a step to its last one, summed over all steps, and the time that
  /// all stages spent on micro-batches.
  double step_seconds = 0;
  double pass_seconds = 0;

  static constexpr message_traits traits{.added = 3, .unrecorded = 2};
};
BOOST_DESCRIBE_STRUCT(trained, (),
                      (head, steps, stopped, dense, dense_digest, server_steps, step_seconds, pass_seconds))

/// Progress of rank 0, sent a few times a second.
struct progress {
  header head;
  std::uint64_t samples = 0;  ///< of this rank, since the epoch began
  double seconds = 0;         ///< since the epoch began
  double loss_sum = 0;        ///< sum over samples since the last report
  std::uint64_t loss_samples = 0;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(progress, (), (head, samples, seconds, loss_sum, loss_samples))

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
  std::uint64_t skipped = 0;        ///< optimizer steps skipped by all ranks because of a NaN or Inf
  std::uint64_t lookups = 0;        ///< answers to this rank's lookups for training
  std::uint64_t staleness_sum = 0;  ///< sum over these answers of the optimizer steps their rows lacked
  std::uint32_t staleness_max = 0;  ///< the maximum over these answers

  static constexpr message_traits traits{.diff = comparable::parts};
};
BOOST_DESCRIBE_STRUCT(epoch_report, (),
                      (head, rank, epoch, steps, samples, seconds, loss_sum, losses, evaluates, skipped, lookups,
                       staleness_sum, staleness_max))

/// One rank's share of the test rows after an epoch.
struct evaluation {
  header head;
  std::uint32_t rank = 0;
  std::uint64_t epoch = 0;
  std::uint64_t rows = 0;      ///< rows whose class was predicted
  std::uint64_t correct = 0;   ///< rows whose most likely class is the true one
  tensor scores;               ///< f32 [rows], binary targets only: rises with the probability of the positive class
  tensor labels;               ///< f32 [rows], 0 or 1
  double log_loss_sum = 0;     ///< sum over the rows; NaN: none
  double probability_sum = 0;  ///< binary targets only: predicted probability of the positive class, sum over the rows
  std::uint64_t tested = 0;    ///< the number of all test rows of the rank
  double loss_sum = 0;         ///< sum of the job's loss over the `tested` rows
  std::vector<tensor> own = {};  ///< one blob of i64, the limbs of `metric_sums` of the `tested` rows; none: no metrics

  static constexpr message_traits traits{.added = 1};
};
BOOST_DESCRIBE_STRUCT(evaluation, (),
                      (head, rank, epoch, rows, correct, scores, labels, log_loss_sum, probability_sum, tested,
                       loss_sum, own))

/// A trainer has reached a step with a checkpoint. Answered when the checkpoint is written or has failed.
struct save_dense {
  header head;
  std::uint32_t rank = 0;
  /// This rank's figures in the current epoch (`samples` to `seconds`); zeros if the epoch has ended.
  std::uint64_t samples = 0;
  double loss_sum = 0;
  double seconds = 0;
  std::uint64_t skipped = 0;
  /// Rank 0 only: the dense weights, the optimizer's buffers and the network's buffers, each flat. With `names`, any
  /// rank: tensors of these names.
  std::vector<tensor> dense = {};
  std::vector<named_shape> names = {};
  /// As in `trained`.
  std::vector<std::uint64_t> server_steps = {};
  /// The trainer continues without waiting for the answer, after standing still for `stood_still` seconds.
  bool goes_on = false;
  double stood_still = 0;

  static constexpr message_traits traits{.diff = comparable::parts, .added = 2};
};
BOOST_DESCRIBE_STRUCT(save_dense, (),
                      (head, rank, samples, loss_sum, seconds, skipped, dense, names, server_steps, goes_on,
                       stood_still))

/// Another trainer's loop has ended after `steps` optimizer steps, in a run whose trainers decide when they end. A
/// trainer that does more steps would wait forever.
struct trainer_ended {
  header head;
  std::uint32_t rank = 0;
  std::uint64_t steps = 0;

  static constexpr message_traits traits{.diff = comparable::no};
};
BOOST_DESCRIBE_STRUCT(trainer_ended, (), (head, rank, steps))

using trainer_actor = caf::typed_actor<caf::result<trained>(train), caf::result<void>(stop),
                                       caf::result<void>(trainer_ended), caf::result<actor_status>(actor_query)>;

}  // namespace troupe::msg
