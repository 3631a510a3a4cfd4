// Which optimizer, with which options: what a job says, and the constants of each of its steps.

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
  bool lazy = false;  ///< sgd and adam of tables: rows that a step does not touch stand still, and so does their state
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

/// What an optimizer is for. Tables know some that are defined by rows.
enum class optimizer_use : std::uint8_t { dense, table };

/// Reads `NAME[:key=value,...]`, e.g. `sgd:momentum=0.9,nesterov=true`. Unknown names and keys, options of another
/// optimizer and values out of range are refused, naming the nearest valid one; so are dense optimizers that only
/// tables have, naming what to use instead. The learning rate and its schedule are settings of their own: they stay at
/// their defaults.
result<optimizer_spec> parse_optimizer(std::string_view text, optimizer_use use);

/// The shortest text from which `parse_optimizer` makes `spec` again (without the learning rate and its schedule).
std::string to_string(const optimizer_spec& spec);

/// The constants of step `step` (1 for the first), schedule and bias corrections computed in double.
kernels::update_constants constants_at(const optimizer_spec& spec, std::uint64_t step);

/// How many buffers of state the optimizer keeps: 0, 1 or 2.
int state_buffers(const optimizer_spec& spec);

/// How many numbers each of them has for a row of `dim` weights: `dim`, or 1 with rowwise_adagrad.
std::size_t state_columns(const optimizer_spec& spec, std::size_t dim);

/// What the first state buffer starts with (initial_accumulator_value, or 0).
float initial_state(const optimizer_spec& spec);

/// True if rows nobody touched must be visited too: momentum, weight decay and Adam by their dense definition.
bool visits_every_row(const optimizer_spec& spec);

}  // namespace troupe::model
