// The configuration of a reference run: JSON text in its file.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/job.hpp"
#include "nn/layer_spec.hpp"

namespace troupe::model {

struct replay_config {
  std::uint32_t trainers = 0;
  std::uint64_t steps = 0;
  std::size_t dense_features = 0;
  std::vector<std::size_t> hidden;
  /// The network layer by layer. If given, there are no tables and no `hidden`, and `dense_features` is the count of
  /// `input`.
  std::vector<nn::layer_spec> layers;
  troupe::shape input;    ///< with layers: the shape of a sample, [features] or [channels, height, width]
  std::size_t batch = 0;  ///< with layers: samples of each rank in each step
  std::uint32_t micro_batches = 1;
  std::size_t outputs = 0;
  loss_kind loss = loss_kind::cross_entropy;
  std::vector<table_spec> tables;
  /// Including their learning rates.
  optimizer_spec dense_optimizer;
  optimizer_spec sparse_optimizer;
  sparse_reduction sparse_reduce = sparse_reduction::mean;
};

/// Returns the shapes of the run's input and output.
data_spec spec_of(const replay_config& config);

/// Parses a configuration. Absent keys have PyTorch's defaults (table mode mean, learning rate 0.001 for sgd and adam,
/// 0.01 for adagrad, no hidden layers, dense features or weights, one micro-batch). Required: trainers, steps, outputs,
/// loss, and the optimizers (the tables' only if there are tables); input and batch if there are layers. Faults name
/// key, value and limit.
result<replay_config> parse_replay_config(std::string_view json);

}  // namespace troupe::model
