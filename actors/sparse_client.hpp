// A batch's traffic with the parameter servers: which rows to ask of whom, how the answers become the network's input,
// and how the input's gradient becomes gradients for the servers. It makes the messages' contents and takes the
// answers; whoever uses it sends them.
//
//   prepare ──▶ ask, for each server ──▶ take, for each server ──▶ pool ──▶ gradients
//
// A table whole on one server is pooled there: pooled rows travel. A table spread over several servers, and any table
// pooled by max, is pooled here: each distinct row travels once, and the same kernel pools them in the same index
// order, so the bits do not depend on the number of servers.
//
// Where messages cross to another process, a whole table too is pooled here for a batch that has fewer distinct rows of
// it than bags: that sends less, in both directions.
//
// A table that is whole on one server of this process, in the memory of the trainer's own CUDA device, is pooled
// straight into its columns of the network's input, and its gradient is read from those of the input's: nothing is
// copied.
//
// Where numbers travel in 16 bits, every table is pooled here. Else rounding would befall pooled rows or single ones,
// depending on how the tables are spread.

#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/device_array.hpp"
#include "model/batch.hpp"
#include "model/exact_sum.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// The network's input on a trainer's device. On a CUDA device servers may write some of its columns there; the others
/// come from the host, packed, and are copied between them. Not thread-safe.
class network_input {
 public:
  /// [size, features]; uninitialized. Requires: the former contents are not in use.
  void resize(kernels::stream& on, std::size_t size, std::size_t features);

  float* data() const { return numbers_.data(); }
  std::size_t size() const { return size_; }
  std::size_t features() const { return features_; }
  /// Keeps the numbers alive.
  const std::shared_ptr<std::byte>& owner() const { return numbers_.owner(); }

  /// Returns room for `columns` columns on the host, until uploaded; on the processor, returns the input itself.
  kernels::row_matrix<float> on_host(kernels::stream& on, std::size_t columns);

  /// Adjacent columns.
  struct column_range {
    std::size_t first = 0;
    std::size_t count = 0;
  };

  /// Copies the columns of `on_host`, which are those of all `ranges` in turn, to their places.
  void upload(kernels::stream& on, std::span<const column_range> ranges);

 private:
  kernels::device_array<float> numbers_;
  kernels::device_array<float> packed_;  ///< the columns from the host, before they are copied between the others
  std::shared_ptr<std::byte> staging_;
  std::size_t staging_count_ = 0;
  std::size_t size_ = 0;
  std::size_t features_ = 0;
};

/// Belongs to one thread.
class sparse_client {
 public:
  struct options {
    /// As what rows and gradients travel.
    kernels::row_dtype wire = kernels::row_dtype::f32;
    /// Messages to the servers cross to another process, so that bytes count.
    bool remote = false;
    /// Where the network computes.
    kernels::device* where = &kernels::host_device();
    /// Most steps beyond the one under way whose rows are asked for.
    std::size_t steps_ahead = 1;
  };

  /// One batch between its lookups and its gradients. Stays where it is while answers are on their way.
  struct context {
    std::uint64_t step = 0;
    std::shared_ptr<const model::batch> samples;
    /// By server: the tables to look up there, and the answer. Both are empty for a batch without samples.
    std::vector<std::vector<msg::bag_lookup>> lookups;
    std::vector<msg::rows> answers;
    std::size_t unanswered = 0;  ///< lookups
    /// By table. All but `is_on_device` is for tables that are pooled here.
    struct local {
      bool is_pooled_here = false;
      bool is_on_device = false;             ///< of the last answer: it is in its columns of the input
      std::vector<std::int64_t> indices;     ///< the batch's indices, as rows of `rows`
      std::vector<std::size_t> shard_begin;  ///< where each shard's rows begin in `rows`; one more than shards
      std::vector<float> rows;               ///< [distinct rows, dim], shard by shard
    };
    std::vector<local> tables;
  };

  sparse_client() = default;
  /// `shards` of each table of `spec`, wherever they are.
  sparse_client(const model::data_spec& spec, std::vector<std::vector<msg::module_ref>> shards, const options& chosen);

  /// The servers that keep any of the tables.
  std::size_t servers() const { return servers_.size(); }
  const msg::parameter_server_actor& server(std::size_t i) const { return servers_[i]; }
  std::uint32_t rank(std::size_t i) const { return ranks_[i]; }

  // -- a batch, in order ---------------------------------------------------------------

  /// Plans the lookups of a batch that `check_batch` has found valid.
  context prepare(std::uint64_t step, std::shared_ptr<const model::batch> samples) const;

  /// Where the input of a step is made, by turns: those whose rows have been asked for, which servers on a device fill;
  /// that of the step under way; and the one before, free again when the host has waited for the step under way.
  network_input& input_of(std::uint64_t step) { return inputs_[step % inputs_.size()]; }

  /// Before the first `ask`: on a CUDA device, makes room in `input` and offers servers of this process their columns
  /// of it. Nobody else may use it until `pool`. `on`: the stream that has used it last.
  void offer(context& c, kernels::stream& on, network_input& input) const;

  /// What to look up on server `i`, which owes an answer then; and the answer.
  msg::lookup ask(context& c, std::size_t i, const msg::header& head, std::uint32_t staleness) const;
  static void take(context& c, std::size_t i, msg::rows&& answer);
  /// Whether server `i` still owes one.
  static bool owes(const context& c, std::size_t i) { return c.unanswered > 0 && c.answers[i].tables.empty(); }

  /// Fills `input` [size, width] on the device of `on`: the dense features, and the answers, pooled. The context must
  /// stay until the stream has passed. Returns an error if an answer does not have the shape asked for.
  caf::error pool(context& c, kernels::stream& on, network_input& input) const;

  /// Whether a gradient is needed on the host, too.
  static bool needs_host(const context& c) { return !std::ranges::all_of(c.tables, &context::local::is_on_device); }

  /// The gradients for each server from that of the input [size, width], which on a CUDA device is `written` from then
  /// on, and is read until the last of them is gone; the host's copy is read here, if it is needed.
  std::vector<std::vector<msg::bag_gradient>> gradients(const context& c,
                                                        const kernels::mirrored_array<float>& grad_input,
                                                        const std::shared_ptr<const kernels::event>& written) const;

  /// Whether a number of the answers, which `pool` has found to be of the right shape, or of the gradients for the
  /// servers is NaN or Inf in the 16 bits in which it travels. float32 is not looked at.
  caf::error check_rows(const context& c) const;
  caf::error check_gradients(const context& c, const std::vector<std::vector<msg::bag_gradient>>& grads) const;

  // -- the norm of all tables' gradient, of an optimizer step ---------------------------

  /// Every server owes its share of it now.
  void ask_for_norm();
  /// A share. An error if it is none.
  caf::error take_norm(std::size_t i, const msg::squared_norm& share);
  bool owes_norm(std::size_t i) const { return i < norm_owed_.size() && norm_owed_[i]; }
  /// Squared, when no server owes its share.
  double squared_norm_of_tables() const;

 private:
  caf::error find_answers(context& c, const network_input& input, std::vector<const msg::tensor*>& found) const;
  bool plan_local(const model::bags& b, std::size_t table, std::size_t distinct_end, context& c) const;
  template <class NumbersAt>
  caf::error check_numbers(const context& c, const char* what, NumbersAt numbers_at) const;

  model::data_spec spec_;
  model::input_layout layout_;
  options options_;
  std::vector<std::vector<msg::module_ref>> tables_;
  std::vector<msg::parameter_server_actor> servers_;
  std::vector<std::uint32_t> ranks_;  ///< of the servers

  /// Where a shard is looked up: the server, and the place among what is asked of it and in its answer.
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
