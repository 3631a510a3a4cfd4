// Which optimizer, with which options: what a job says, and the constants of each of its steps.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/optimizer.hpp"
#include "model/result.hpp"

namespace troupe {

/// An optimizer's kind and options, PyTorch's names and defaults.
struct optimizer_spec {
  kernels::optimizer_kind kind = kernels::optimizer_kind::sgd;
  double lr = 0.05;
  double weight_decay = 0;
  double momentum = 0;                   ///< sgd
  bool nesterov = false;                 ///< sgd; needs momentum
  double eps = 1e-10;                    ///< adagrad 1e-10, adam 1e-8
  double initial_accumulator_value = 0;  ///< adagrad
  double beta1 = 0.9;                    ///< adam
  double beta2 = 0.999;                  ///< adam

  bool operator==(const optimizer_spec&) const = default;
};

/// Reads `NAME[:key=value,...]`, e.g. `sgd:momentum=0.9,nesterov=true`. Unknown names and keys, options of another
/// optimizer and values out of range are refused, naming the nearest valid one. The learning rate is a setting of
/// its own: `lr` stays at its default.
result<optimizer_spec> parse_optimizer(std::string_view text);

/// The shortest text from which `parse_optimizer` makes `spec` again (without the learning rate).
std::string to_string(const optimizer_spec& spec);

/// The constants of step `step` (1 for the first), bias corrections computed in double.
kernels::update_constants constants_at(const optimizer_spec& spec, std::uint64_t step);

/// How many buffers as big as the weights the optimizer keeps: 0, 1 or 2.
int state_buffers(const optimizer_spec& spec);

/// What the first state buffer starts with (adagrad's initial_accumulator_value, else 0).
float initial_state(const optimizer_spec& spec);

/// True if rows nobody touched must be visited too: momentum, weight decay and Adam by their dense definition.
bool visits_every_row(const optimizer_spec& spec);

}  // namespace troupe
