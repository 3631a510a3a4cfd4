// Optimizers: their options, and the constants of each step.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "kernels/optimizer.hpp"
#include "model/lr_schedule.hpp"

namespace troupe::model {

/// An optimizer's kind and options, PyTorch's names and defaults.
struct optimizer_spec {
  kernels::optimizer_kind kind = kernels::optimizer_kind::sgd;
  bool lazy = false;  ///< sgd and adam of tables: a step does not change untouched rows and their state
  double lr = 0.05;
  lr_schedule schedule;  ///< of lr
  double weight_decay = 0;
  double momentum = 0;                   ///< sgd
  bool nesterov = false;                 ///< sgd; needs momentum
  double eps = 1e-10;                    ///< adagrad, rowwise_adagrad 1e-10, adam 1e-8
  double initial_accumulator_value = 0;  ///< adagrad, rowwise_adagrad
  double beta1 = 0.9;                    ///< adam
  double beta2 = 0.999;                  ///< adam

  bool operator==(const optimizer_spec&) const = default;
};

/// The use of an optimizer. Some are defined by rows, for tables only.
enum class optimizer_use : std::uint8_t { dense, table };

/// Parses `NAME[:key=value,...]`, e.g. `sgd:momentum=0.9,nesterov=true`. Refuses unknown names and keys, options of
/// another optimizer and values out of range, with the nearest valid one; and for dense weights the optimizers of
/// tables, with a replacement. Learning rate and schedule are separate settings and keep their defaults.
result<optimizer_spec> parse_optimizer(std::string_view text, optimizer_use use);

/// Returns the shortest text from which `parse_optimizer` makes `spec` (without learning rate and schedule).
std::string to_string(const optimizer_spec& spec);

/// Returns the name of the optimizer without its options, the same if it is lazy: optimizers with one name have the
/// same state.
std::string rule_of(const optimizer_spec& spec);

/// Returns the constants of step `step` (from 1); schedule and bias corrections are computed in double.
kernels::update_constants constants_at(const optimizer_spec& spec, std::uint64_t step);

/// Returns the number of the optimizer's state buffers: 0, 1 or 2.
int state_buffers(const optimizer_spec& spec);

/// Returns the columns of each state buffer for a row of `dim` weights: `dim`, or 1 with rowwise_adagrad.
std::size_t state_columns(const optimizer_spec& spec, std::size_t dim);

/// Returns the initial value of the first state buffer (initial_accumulator_value, or 0).
float initial_state(const optimizer_spec& spec);

/// Returns whether a step also changes untouched rows: momentum, weight decay and Adam by their dense definition.
bool visits_every_row(const optimizer_spec& spec);

}  // namespace troupe::model
