// Messages to a parameter server: they create, look up, train, save and restore modules.

#pragma once

#include <caf/typed_actor.hpp>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "protocol/blob.hpp"
#include "protocol/describe.hpp"
#include "protocol/header.hpp"
#include "protocol/tensor.hpp"
#include "protocol/type_ids.hpp"

namespace troupe::msg {

/// Named text arguments, in the order given.
using arguments = std::vector<std::pair<std::string, std::string>>;

/// The parts of a module's state, by name.
using state_entries = std::vector<std::pair<std::string, tensor>>;

using parameter_server_actor =
    caf::typed_actor<caf::result<module_ref>(instantiate), caf::result<rows>(lookup), caf::result<void>(gradient),
                     caf::result<squared_norm>(gradient_norm), caf::result<committed>(optimizer_step),
                     caf::result<parameter_list>(parameters), caf::result<module_state>(state_dict),
                     caf::result<committed>(load_state_dict), caf::result<tensor>(row_digests),
                     caf::result<saved_module>(save_module), caf::result<committed>(restore_module),
                     caf::result<void>(release), caf::result<void>(set_optimizer), caf::result<returned>(call),
                     caf::result<actor_status>(actor_query)>;

/// A module to create on a server: a registered type and its arguments.
struct module_spec {
  std::string type;
  arguments args;
};
BOOST_DESCRIBE_STRUCT(module_spec, (), (type, args))

constexpr std::uint64_t any_memory = std::numeric_limits<std::uint64_t>::max();

/// Creates a module, or one of its `shards` shards if it is spread over several servers. A table's arguments include
/// how it is split.
struct instantiate {
  header head;
  module_spec spec;
  std::uint32_t shard = 0;
  std::uint32_t shards = 1;
  /// The number of trainers whose gradients make up an optimizer step.
  std::uint32_t trainers = 1;
  /// The number of batches per trainer, i.e. of global steps, that make up an optimizer step.
  std::uint32_t accumulate = 1;
  /// The most optimizer steps that the rows of a lookup may lack; any_staleness: gradients are applied on arrival.
  std::uint32_t staleness = 0;
  /// Global steps that the run has already completed.
  std::uint64_t steps_done = 0;
  /// The bytes that the server may use to keep rows that change while a checkpoint is written; any_memory: the server
  /// decides.
  std::uint64_t checkpoint_memory = any_memory;

  static constexpr message_traits traits{.added = 1};
};
BOOST_DESCRIBE_STRUCT(instantiate, (),
                      (head, spec, shard, shards, trainers, accumulate, staleness, steps_done, checkpoint_memory))

/// A reference to a remote module or to one of its shards.
struct module_ref {
  header head;
  parameter_server_actor server;
  std::uint64_t module = 0;
  std::uint32_t shard = 0;
  std::uint32_t shards = 1;
  /// The server's rank.
  std::uint32_t rank = 0;
};
BOOST_DESCRIBE_STRUCT(module_ref, (), (head, server, module, shard, shards, rank))

/// The rows requested from one table. Indices are row numbers within the server's shard.
struct bag_lookup {
  std::uint64_t module = 0;
  blob indices;  ///< i64
  blob offsets;  ///< i64, one per bag; empty: no pooling, one row per index
  blob weights;  ///< f32, one per index, or empty
  /// The buffer for pooled f32 rows, if the table is on that device of this process; null: rows go to host memory.
  std::shared_ptr<const lookup_destination> destination = nullptr;
};
BOOST_DESCRIBE_STRUCT(bag_lookup, (), (module, indices, offsets, weights))

/// Asks for the rows after the optimizer steps before step head.step, or after all but at most the last `staleness` of
/// these. Parked until the required steps have been applied.
struct lookup {
  header head;
  std::vector<bag_lookup> tables;
  std::uint32_t staleness = 0;
  /// The dtype in which the rows travel: f32, f16 or bf16.
  dtype type = dtype::f32;

  static constexpr message_traits traits{
      .via = plane::data, .ordered = true, .replayed = true, .only_reads = true, .blobs_return = true};
};
BOOST_DESCRIBE_STRUCT(lookup, (), (head, tables, staleness, type))

/// For each table of the lookup: its pooled rows [bags, dim], or its rows [indices, dim], in the lookup's dtype.
struct rows {
  header head;
  std::vector<tensor> tables;
  /// The number of optimizer steps before head.step that the rows lack.
  std::uint32_t missing = 0;

  static constexpr message_traits traits{.via = plane::data, .replayed = true};
};
BOOST_DESCRIBE_STRUCT(rows, (), (head, tables, missing))

/// One table's gradient: with respect to the pooled rows, or, if `offsets` is empty, to each row named by the indices.
/// In f32, f16 or bf16.
struct bag_gradient {
  std::uint64_t module = 0;
  blob indices;
  blob offsets;
  blob weights;
  tensor grad;
};
BOOST_DESCRIBE_STRUCT(bag_gradient, (), (module, indices, offsets, weights, grad))

/// One trainer's table gradients for one batch in the context (head.run, head.step). Not answered: a lookup of the next
/// step waits until the gradients of all trainers have been applied.
struct gradient {
  header head;
  std::uint32_t rank = 0;
  /// False if the trainer has run out of data: it takes part with no gradient and does not count in the mean.
  bool has_batch = true;
  /// The optimizer step is part of this gradient; no `optimizer_step` follows.
  bool step = true;
  std::vector<bag_gradient> tables;
  /// A checkpoint saves the state before this optimizer step: the server keeps that state until it is written.
  bool keeps = false;

  static constexpr message_traits traits{.via = plane::data, .ordered = true, .replayed = true, .unrecorded = 1};
};
BOOST_DESCRIBE_STRUCT(gradient, (), (head, rank, has_batch, step, tables, keeps))

/// Asks for the squared norm of the step's gradient in this server's modules, as the optimizer would use it. Answered
/// when all trainers have asked, i.e. when all their gradients have arrived.
struct gradient_norm {
  header head;
  std::uint32_t rank = 0;

  static constexpr message_traits traits{.via = plane::data, .ordered = true, .replayed = true};
};
BOOST_DESCRIBE_STRUCT(gradient_norm, (), (head, rank))

/// The limbs of an `exact_sum`: servers' sums add up to the same bits however the rows are sharded.
struct squared_norm {
  header head;
  blob limbs;  ///< i64

  static constexpr message_traits traits{.via = plane::data, .replayed = true};
};
BOOST_DESCRIBE_STRUCT(squared_norm, (), (head, limbs))

/// Ends the trainer's gradients of this context. Answered when those of all trainers have arrived and the step has been
/// applied, or skipped if `apply` is false. Requires: all trainers send the same `apply` and `factor`.
struct optimizer_step {
  header head;
  std::uint32_t rank = 0;
  bool apply = true;
  /// The clipping factor on the gradient.
  float factor = 1;

  static constexpr message_traits traits{.via = plane::data, .ordered = true, .replayed = true};
};
BOOST_DESCRIBE_STRUCT(optimizer_step, (), (head, rank, apply, factor))

struct committed {
  header head;

  static constexpr message_traits traits{.via = plane::data};
};
BOOST_DESCRIBE_STRUCT(committed, (), (head))

/// Asks for the names, dtypes and shapes of a module's parameters.
struct parameters {
  header head;
  std::uint64_t module = 0;

  static constexpr message_traits traits{.only_reads = true};
};
BOOST_DESCRIBE_STRUCT(parameters, (), (head, module))

struct parameter_info {
  std::string name;
  dtype type = dtype::f32;
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;
};
BOOST_DESCRIBE_STRUCT(parameter_info, (), (name, type, rows, cols))

struct parameter_list {
  header head;
  std::vector<parameter_info> items;
};
BOOST_DESCRIBE_STRUCT(parameter_list, (), (head, items))

/// Asks for a module's weights and optimizer state after step head.step.
struct state_dict {
  header head;
  std::uint64_t module = 0;

  static constexpr message_traits traits{.only_reads = true};
};
BOOST_DESCRIBE_STRUCT(state_dict, (), (head, module))

struct module_state {
  header head;
  state_entries entries;
};
BOOST_DESCRIBE_STRUCT(module_state, (), (head, entries))

/// Replaces the given entries; names and shapes are as in the answer to `state_dict`.
struct load_state_dict {
  header head;
  std::uint64_t module = 0;
  state_entries entries;
};
BOOST_DESCRIBE_STRUCT(load_state_dict, (), (head, module, entries))

/// The most rows per `row_digests` message.
constexpr std::uint64_t row_digests_max = 65'536;

/// Asks for the digest of each row's bits after step head.step, for `rows` rows of the shard starting at `first_row`. A
/// shard that has only some columns answers with these rows themselves [rows, columns], as it stores them.
struct row_digests {
  header head;
  std::uint64_t module = 0;
  std::uint64_t first_row = 0;
  std::uint64_t rows = 0;

  static constexpr message_traits traits{.only_reads = true};
};
BOOST_DESCRIBE_STRUCT(row_digests, (), (head, module, first_row, rows))

/// Writes a module's weights and optimizer state after step head.step to a file in `folder`, and is answered when it is
/// on disk. With an empty `folder`, drops that state if it was kept.
struct save_module {
  header head;
  std::uint64_t module = 0;
  std::string folder;

  static constexpr message_traits traits{.diff = comparable::parts};
};
BOOST_DESCRIBE_STRUCT(save_module, (), (head, module, folder))

/// The file written by `save_module`, and the tensors in it.
struct saved_module {
  header head;
  std::string name;
  std::uint64_t length = 0;
  std::string digest;
  std::vector<parameter_info> parts = {};
};
BOOST_DESCRIBE_STRUCT(saved_module, (), (head, name, length, digest, parts))

/// Loads a module's weights and optimizer state from the checkpoint after step `step` in `directory`.
struct restore_module {
  header head;
  std::uint64_t module = 0;
  std::string directory;
  std::uint64_t step = 0;

  static constexpr message_traits traits{.diff = comparable::parts};
};
BOOST_DESCRIBE_STRUCT(restore_module, (), (head, module, directory, step))

/// Chooses a module's optimizer: a value of `--sparse-optimizer`, its learning rate, and a value of `--lr-schedule`.
/// All trainers choose the same one, before their first gradient; the first choice initializes the optimizer's state.
struct set_optimizer {
  header head;
  std::uint64_t module = 0;
  std::string optimizer;
  double lr = 0;
  std::string schedule = "constant";

  static constexpr message_traits traits{.via = plane::data, .ordered = true, .replayed = true, .added = 1};
};
BOOST_DESCRIBE_STRUCT(set_optimizer, (), (head, module, optimizer, lr, schedule))

/// Calls a method of a module. Answered when the method has returned.
struct call {
  header head;
  std::uint64_t module = 0;  ///< 0: the server's own methods, such as making modules
  std::string method;
  /// The arguments; tensors are flat columns, with their shapes in `fields`.
  std::string fields;
  std::vector<tensor> tensors = {};
  /// Parked until all optimizer steps before head.step have been applied.
  bool in_step = false;

  static constexpr message_traits traits{.via = plane::data, .ordered = true, .replayed = true};
};
BOOST_DESCRIBE_STRUCT(call, (), (head, module, method, fields, tensors, in_step))

/// The result of a called method, encoded as the arguments of `call`.
struct returned {
  header head;
  std::string fields;
  std::vector<tensor> tensors = {};

  static constexpr message_traits traits{.via = plane::data, .replayed = true};
};
BOOST_DESCRIBE_STRUCT(returned, (), (head, fields, tensors))

/// Frees a module that is no longer needed.
struct release {
  header head;
  std::uint64_t module = 0;
};
BOOST_DESCRIBE_STRUCT(release, (), (head, module))

}  // namespace troupe::msg
