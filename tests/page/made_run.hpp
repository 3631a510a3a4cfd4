// A made-up synchronous training run, as the recorder would record it: every number follows from the options, so tests
// know what a page must show, and the browser's tests get many records without training.

#pragma once

#include <cstdint>

#include "trace/record/recording.hpp"

namespace troupe::page {

struct made_run_options {
  std::uint64_t steps = 40;
  std::uint16_t servers = 2;
  std::uint16_t trainers = 3;
  /// Server 1's apply takes 50 ms longer in these steps.
  std::uint64_t slow_from = 0;
  std::uint64_t slow_to = 0;
  /// Trainer 1's last gradient to server 0 is lost, so that all actors wait in the end.
  bool loses_gradient = false;
  /// Names and types contain markup.
  bool has_odd_names = false;
  /// Each server and trainer is in its own process.
  bool has_processes = false;
  /// Its test rows have errors in place of an area under the curve.
  bool predicts_numbers = false;
};

trace::recording make_run(const made_run_options& how);

/// Returns the number of messages that a run handles per step.
std::uint64_t messages_per_step(const made_run_options& how);

}  // namespace troupe::page
