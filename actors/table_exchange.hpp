// A batch's traffic with the parameter servers: which rows to ask of whom, how the answers become the network's input,
// and how the input's gradient becomes gradients for the servers.
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

#include "actors/network_input.hpp"
#include "kernels/device_array.hpp"
#include "model/hybrid.hpp"
#include "protocol/messages.hpp"

namespace troupe {

class table_exchange {
 public:
  /// What is known about one batch between its lookup and its gradient.
  struct plan {
    std::shared_ptr<const batch> samples;
    /// By server: the tables to look up there.
    std::vector<std::vector<bag_lookup>> lookups;
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

  table_exchange() = default;
  /// `tables`: the shards of each table, wherever they are. `wire`: as what rows and gradients travel; lookups must
  /// ask for it. `remote`: messages to the servers cross to another process, so that bytes count.
  table_exchange(const hybrid_model& model, std::vector<std::vector<module_ref>> tables,
                 kernels::row_dtype wire = kernels::row_dtype::f32, bool remote = false);

  /// The trainer computes on `device`.
  void compute_on(kernels::device& device) { device_ = &device; }

  /// The servers that keep any of the tables.
  std::size_t servers() const { return servers_.size(); }
  const parameter_server_actor& server(std::size_t i) const { return servers_[i]; }
  std::uint32_t rank(std::size_t i) const { return ranks_[i]; }

  /// Plans the lookups of a batch that `check_batch` has found valid.
  plan prepare(std::shared_ptr<const batch> samples) const;

  /// Before the lookups of `p` are sent: offers servers of this process their columns of `input` [size, in_features],
  /// if that is on a CUDA device. Nobody else may use it until `pool`.
  void offer_columns(plan& p, const network_input& input) const;

  /// Fills `input` [size, in_features] on the device of `on`: the dense features, and the answers, by server, pooled.
  /// The answers must stay until the stream has passed. Returns an error if an answer does not have the shape asked
  /// for.
  caf::error pool(plan& p, std::span<const rows> answers, kernels::stream& on, network_input& input) const;

  /// Whether a gradient is needed on the host, too.
  bool needs_host(const plan& p) const { return !std::ranges::all_of(p.tables, &plan::local::is_on_device); }

  /// The gradients for each server from that of the input [size, in_features], which on a CUDA device is `written` from
  /// then on, and is read until the last of them is gone; the host's copy is read here, if it is needed.
  std::vector<std::vector<bag_gradient>> gradients(const plan& p, const kernels::mirrored_array<float>& grad_input,
                                                   const std::shared_ptr<const kernels::event>& written) const;

  /// Whether a number of the answers, which `pool` has found to be of the right shape, or of the gradients for the
  /// servers is NaN or Inf in the 16 bits in which it travels. float32 is not looked at.
  caf::error check_rows(const plan& p, std::span<const rows> answers) const;
  caf::error check_gradients(const plan& p, const std::vector<std::vector<bag_gradient>>& grads) const;

 private:
  bool must_be_pooled_here(std::size_t table) const;
  caf::error find_answers(plan& p, std::span<const rows> answers, const network_input& input,
                          std::vector<const tensor*>& found) const;
  bool plan_local(const bags& b, std::size_t table, std::size_t distinct_max, plan& p) const;
  template <class NumbersAt>
  caf::error check_numbers(const plan& p, const char* what, NumbersAt numbers_at) const;

  const hybrid_model* model_ = nullptr;
  kernels::row_dtype wire_ = kernels::row_dtype::f32;
  bool remote_ = false;
  kernels::device* device_ = &kernels::host_device();
  std::vector<std::vector<module_ref>> tables_;
  std::vector<parameter_server_actor> servers_;
  std::vector<std::uint32_t> ranks_;  // of the servers

  /// Where a shard is looked up: the server, and the place among what is asked of it and in its answer.
  struct place {
    std::size_t server = 0;
    std::size_t number = 0;
  };
  std::vector<std::vector<place>> places_;  // by table, then shard
};

}  // namespace troupe
