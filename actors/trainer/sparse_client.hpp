// A batch's traffic with the parameter servers: which rows to look up on which server, how the answers become the
// network's input, and how the input's gradient becomes gradients for the servers. It makes the messages and reads the
// answers; the caller sends them.
//
//   prepare ──▶ ask, for each server ──▶ take, for each server ──▶ pool ──▶ gradients
//
// A table on a single server is pooled there, and pooled rows are sent. A table whose rows are spread over several
// servers, and any table pooled by max, is pooled here: each distinct row is sent once, and the same kernel pools them
// in the same index order, so the bits do not depend on the number of servers.
//
// A table split by columns is handled like one on a single server: each of its servers is asked for the same bags or
// rows, and answers with its columns of them, which are put side by side; gradients are cut in the same way.
//
// If the servers are in other processes, a table that they could pool is also pooled here for a batch with fewer
// distinct rows of it than bags: that sends less, in both directions.
//
// If the tables are on a CUDA device of this process, the bags and the dense features are put into the device's staging
// memory by `prepare`, on a thread that makes batches, so that the server's thread can upload them without a copy.
//
// A table on a single server of this process, in the memory of the trainer's own CUDA device, is pooled directly into
// its columns of the network's input, and its gradient is read from the columns of the input's gradient, without
// copies.
//
// If numbers are sent in 16 bits, every table is pooled here. Otherwise the spread of the tables would decide whether
// pooled or single rows are rounded.

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/trainer/network_input.hpp"
#include "kernels/device_array.hpp"
#include "kernels/stream_timer.hpp"
#include "model/batch.hpp"
#include "model/exact_sum.hpp"
#include "model/table_split.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// The gradient of a network's input [size, width], in device memory and in memory that the host can read.
struct input_gradient {
  explicit input_gradient(std::shared_ptr<std::byte> on_host)
      : data(reinterpret_cast<float*>(on_host.get())), host(data), owner(std::move(on_host)) {}
  input_gradient(const kernels::mirrored_array<float>& both)
      : data(both.data()), host(both.host()), owner(both.owner()) {}

  float* data;
  const float* host;
  std::shared_ptr<std::byte> owner;  ///< owns `data`
};

/// Belongs to one thread.
class sparse_client {
 public:
  struct options {
    /// The type of rows and gradients in messages.
    kernels::row_dtype wire = kernels::row_dtype::f32;
    /// Whether servers are in other processes, so that the size of messages matters.
    bool remote = false;
    /// The device of the network.
    kernels::device* where = &kernels::host_device();
    /// The CUDA device of the servers' tables, if they are in this process; null: they are elsewhere.
    kernels::device* staging = nullptr;
    /// The most steps after the current one whose rows are looked up.
    std::size_t steps_ahead = 1;
    /// On the processor, the number of steps that use their inputs at the same time.
    std::size_t steps_together = 1;
    /// How tables on several servers are split.
    model::table_split split = model::table_split::rows;
    /// The name of a program's only table in errors; empty: the tables are a job's, and named by number.
    std::string table_text = {};
  };

  /// A batch between its lookups and its gradients. Requires: it keeps its address while answers are pending.
  struct context {
    std::uint64_t step = 0;
    std::shared_ptr<const model::batch> samples;
    std::shared_ptr<std::byte> dense;  ///< the dense features in staging memory; null: those of `samples`
    /// By server: the tables to look up there, and the answer. Both are empty for an empty batch.
    std::vector<std::vector<msg::bag_lookup>> lookups;
    std::vector<msg::rows> answers;
    std::size_t unanswered = 0;  ///< pending lookups
    /// By table. All members except `is_on_device` are for tables pooled here.
    struct local {
      bool is_pooled_here = false;
      bool is_on_device = false;             ///< the last answer is in its columns of the input
      std::vector<std::int64_t> indices;     ///< the batch's indices, as rows of `rows`
      std::vector<std::size_t> shard_begin;  ///< the first row of each shard in `rows`; shards + 1 elements
      std::vector<float> rows;               ///< [distinct rows, dim], by shard; one shard if split by columns

      void clear() {
        is_pooled_here = is_on_device = false;
        indices.clear();
        shard_begin.clear();
        rows.clear();
      }
    };
    std::vector<local> tables;
    struct range {
      std::size_t first = 0;
      std::size_t count = 0;
    };

    /// Clears the batch, but keeps the memory.
    void clear() {
      samples.reset();
      dense.reset();
      for (auto& asked : lookups) asked.clear();
      for (auto& answer : answers) answer = {};
      unanswered = 0;
      for (local& one : tables) one.clear();
    }
  };

  sparse_client() = default;
  /// `shards`: those of each table of `spec`, by shard number.
  sparse_client(const model::data_spec& spec, std::vector<std::vector<msg::module_ref>> shards, const options& chosen);

  /// The number of servers with a part of any table.
  std::size_t servers() const { return servers_.size(); }
  const msg::parameter_server_actor& server(std::size_t i) const { return servers_[i]; }
  std::uint32_t rank(std::size_t i) const { return ranks_[i]; }

  // -- a batch, in order ---------------------------------------------------------------

  /// Plans the lookups of a batch, reusing the memory of the unused context `spent`. Requires: `check_batch` accepts
  /// the batch. Thread: any.
  context prepare(std::uint64_t step, std::shared_ptr<const model::batch> samples, context&& spent) const;
  context prepare(std::uint64_t step, std::shared_ptr<const model::batch> samples) const {
    return prepare(step, std::move(samples), context());
  }

  /// Frees the members of the batch that `prepare` has copied to staging memory. Requires: `samples` are those of `c`.
  void free_copied(const context& c, model::batch& samples) const;

  /// Returns the buffer of a step's input, in rotation. A device needs buffers for the looked-up steps, which servers
  /// fill, for the current step, and for the two steps before. In each step the host waits at the latest for the loss
  /// of the step before, and then the buffer of the step before that is free.
  network_input& input_of(std::uint64_t step) { return inputs_[step % inputs_.size()]; }

  /// On a CUDA device, resizes `input` and offers its columns to servers of this process. `on`: the last stream that
  /// used `input`. Requires: called before the first `ask`; `input` is not used otherwise until `pool`.
  void offer(context& c, kernels::stream& on, network_input& input) const;

  /// `ask` returns the lookup for server `i`, whose answer is pending from then on; `take` stores that answer.
  msg::lookup ask(context& c, std::size_t i, const msg::header& head, std::uint32_t staleness) const;
  static void take(context& c, std::size_t i, msg::rows&& answer);
  /// Returns whether the answer of server `i` is pending.
  static bool owes(const context& c, std::size_t i) { return c.unanswered > 0 && c.answers[i].tables.empty(); }

  /// Fills `input` [size, width] on the device of `on` with the dense features and the pooled answers. Returns an error
  /// if an answer has a wrong shape. `timer`: the stream's, times the copy from the host; may be null. Requires: the
  /// context keeps its address until the stream's work is done.
  caf::error pool(context& c, kernels::stream& on, network_input& input, kernels::stream_timer* timer = nullptr) const;

  /// Frees the answers. Requires, on the processor: `pool` has read them, and so has `check_rows` if it is used.
  static void free_answers(context& c) {
    for (msg::rows& answer : c.answers) answer.tables.clear();
  }

  /// Returns whether the rows of every batch, and their gradients, stay on the network's CUDA device.
  bool stays_on_device() const;

  /// Returns whether a gradient is also needed on the host.
  static bool needs_host(const context& c) { return !std::ranges::all_of(c.tables, &context::local::is_on_device); }

  /// Returns the gradients for each server from the input's gradient [size, width]. On a CUDA device the input's
  /// gradient is valid after the event `written`, and is read until the last of the returned gradients is gone; a host
  /// copy, if needed, is read here.
  std::vector<std::vector<msg::bag_gradient>> gradients(const context& c, const input_gradient& grad_input,
                                                        const std::shared_ptr<const kernels::event>& written) const;

  /// Return an error if the answers or the servers' gradients contain NaN or Inf in 16 bits. float32 is not checked.
  /// Requires: `pool` has accepted the answers.
  caf::error check_rows(const context& c) const;
  caf::error check_gradients(const context& c, const std::vector<std::vector<msg::bag_gradient>>& grads) const;

  // -- the norm of all tables' gradients in an optimizer step ----------------------------

  /// From now on every server's share of the norm is pending.
  void ask_for_norm();
  /// Adds a share. Returns an error if it is invalid.
  caf::error take_norm(std::size_t i, const msg::squared_norm& share);
  bool owes_norm(std::size_t i) const { return i < norm_owed_.size() && norm_owed_[i]; }
  /// Returns the squared norm. Requires: no server's share is pending.
  double squared_norm_of_tables() const;

 private:
  caf::error find_answers(context& c, const network_input& input, std::vector<const msg::tensor*>& found) const;
  template <class Owner, class T>
  msg::blob as_blob(const std::shared_ptr<Owner>& owner, const std::vector<T>& numbers) const;
  bool plan_local(const model::bags& b, std::size_t table, std::size_t distinct_end, context& c) const;
  model::shard_of shard(std::size_t table, std::size_t s) const;
  context::range rows_of(const context::local& local, std::size_t shard) const;
  template <class NumbersAt>
  caf::error check_numbers(const context& c, const char* what, NumbersAt numbers_at) const;

  model::data_spec spec_;
  model::input_layout layout_;
  options options_;
  std::vector<std::vector<msg::module_ref>> tables_;
  std::vector<msg::parameter_server_actor> servers_;
  std::vector<std::uint32_t> ranks_;  ///< of the servers

  /// Where a shard is looked up: the server, and the position in its lookup and its answer.
  struct place {
    std::size_t server = 0;
    std::size_t number = 0;
  };
  std::vector<std::vector<place>> places_;  ///< by table, then shard

  std::vector<network_input> inputs_;
  model::exact_sum norm_;
  std::vector<bool> norm_owed_;  ///< by server
};

}  // namespace troupe::actors
