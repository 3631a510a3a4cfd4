// A synchronous training run as the recorder would have seen it, made up: every number follows from the options, so
// tests know what a page has to show, and the browser's tests have as many records as they want without training.

#pragma once

#include <cstdint>

#include "trace/recording.hpp"

namespace troupe::page {

struct made_run_options {
  std::uint64_t steps = 40;
  std::uint16_t servers = 2;
  std::uint16_t trainers = 3;
  /// Server 1's apply takes 50 ms more in these steps.
  std::uint64_t slow_from = 0;
  std::uint64_t slow_to = 0;
  /// The last step's gradient of trainer 1 to server 0 is lost on its way, so that everybody waits in the end.
  bool loses_gradient = false;
  /// Names and types have markup in them.
  bool has_odd_names = false;
  /// Servers and trainers are in processes of their own.
  bool has_processes = false;
  /// Its test rows have errors instead of an area under the curve.
  bool predicts_numbers = false;
};

trace::recording make_run(const made_run_options& how);

/// Messages that such a run handles in a step.
std::uint64_t messages_per_step(const made_run_options& how);

}  // namespace troupe::page
