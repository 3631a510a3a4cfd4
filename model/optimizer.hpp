// Optimizers: their options, and the constants of each step.

#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "base/result.hpp"
#include "kernels/optimizer.hpp"
#include "model/lr_schedule.hpp"
#include "nn/own_optimizer.hpp"

namespace troupe::kernels {
class device;
}

namespace troupe::model {

/// The options of each optimizer, with PyTorch's names and defaults.
struct sgd_options {
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;  ///< needs momentum

  bool operator==(const sgd_options&) const = default;
};

struct adagrad_options {
  double eps = 1e-10;
  double initial_accumulator_value = 0;
  double weight_decay = 0;

  bool operator==(const adagrad_options&) const = default;
};

struct adam_options {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;

  bool operator==(const adam_options&) const = default;
};

/// For tables only: a step does not change untouched rows and their state.
struct rowwise_adagrad_options : adagrad_options {};
struct lazy_sgd_options : sgd_options {};
struct lazy_adam_options : adam_options {};

/// The last alternative is for a program's own optimizers, for dense weights and tables alike.
using optimizer_options = std::variant<sgd_options, adagrad_options, adam_options, rowwise_adagrad_options,
                                       lazy_sgd_options, lazy_adam_options, nn::own_optimizer_choice>;

/// An optimizer.
struct optimizer_spec {
  optimizer_options options;
  double lr = 0.05;
  lr_schedule schedule = {};  ///< of lr

  /// Returns the options if they are `Options`, or belong to a table optimizer derived from it; else null.
  template <class Options>
  const Options* as() const {
    return std::visit(
        [](const auto& mine) -> const Options* {
          if constexpr (std::derived_from<std::remove_cvref_t<decltype(mine)>, Options>) return &mine;
          return nullptr;
        },
        options);
  }

  /// Returns the optimizer if the program has added it; else null.
  const nn::chosen_optimizer* own() const {
    const auto* chosen = as<nn::own_optimizer_choice>();
    return chosen == nullptr ? nullptr : chosen->what.get();
  }

  bool operator==(const optimizer_spec&) const = default;
};

/// The use of an optimizer. Some optimizers are defined by rows, and so only for tables.
enum class optimizer_use : std::uint8_t { dense, table };

/// Parses `NAME[:key=value,...]`, e.g. `sgd:momentum=0.9,nesterov=true`, for Troupe's optimizers and those added by the
/// program. Refuses unknown names and keys, options of another optimizer and values out of range, with the nearest
/// valid one;
/// and table optimizers for dense weights, with a replacement. Learning rate and schedule are separate settings and
/// keep their defaults.
result<optimizer_spec> parse_optimizer(std::string_view text, optimizer_use use);

/// Returns the shortest text from which `parse_optimizer` makes `spec` (without learning rate and schedule).
std::string to_string(const optimizer_spec& spec);

/// Returns the text for a program's messages: with all options, those of Adagrad in reverse order.
std::string full_text(const optimizer_spec& spec);

/// Returns the option that is out of range, and its limits, as `parse_optimizer` does, or null.
std::optional<std::string> check_options(const optimizer_spec& spec);

/// Returns the optimizer's name without options and without `lazy`: optimizers with the same name have the same state.
std::string rule_of(const optimizer_spec& spec);

/// Returns why an optimizer does not compute on `where`, and what to do; null: it does. `option`: the option that
/// chooses the device.
std::optional<std::string> device_fault(const optimizer_spec& spec, const kernels::device& where, const char* option);

/// Returns the constants of step `step` (from 1); schedule and bias corrections are computed in double. Requires: a
/// program's optimizer outlives their use.
kernels::update_constants constants_at(const optimizer_spec& spec, std::uint64_t step);

/// Returns the number of the optimizer's state buffers: 0, 1 or 2.
int state_buffers(const optimizer_spec& spec);

/// Returns the columns of each state buffer for a row of `dim` weights: `dim`, or 1 with rowwise_adagrad.
std::size_t state_columns(const optimizer_spec& spec, std::size_t dim);

/// Returns the initial value of the first state buffer: initial_accumulator_value, the value of a program's optimizer,
/// or 0.
float initial_state(const optimizer_spec& spec);

/// Returns whether a step also changes untouched rows: momentum, weight decay and Adam by their dense definition.
bool visits_every_row(const optimizer_spec& spec);

}  // namespace troupe::model
