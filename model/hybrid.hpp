// The hybrid model: several embedding tables and dense features into an MLP, and a loss.
//
// The network's input is the dense features first, then the tables' pooled rows in order. The tables' rows come from
// elsewhere (parameter servers); this is the dense side, as every trainer holds it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/data.hpp"
#include "model/mlp.hpp"

namespace troupe {

class hybrid_model {
 public:
  hybrid_model(const data_spec& spec, std::span<const std::size_t> hidden, loss_kind loss);

  const mlp& network() const { return network_; }
  const data_spec& spec() const { return spec_; }

  /// Width of the network's input.
  std::size_t in_features() const { return network_.in_features(); }

  /// Where table `table`'s pooled row begins in a row of the input.
  std::size_t column_of(std::size_t table) const { return columns_[table]; }

  /// Copies the dense features into their columns of `input` [size, in_features].
  void place_dense(const batch& samples, float* input) const;

  /// Mean loss over the batch, and its gradient with respect to `outputs` [size, outputs] in place.
  double loss(const batch& samples, float* outputs) const;

 private:
  data_spec spec_;
  loss_kind loss_;
  std::vector<std::size_t> columns_;
  mlp network_;
};

}  // namespace troupe
