// Elastic jobs: the number of trainers changes between steps. The result of a run is a function of its job, its seed
// and its memberships, which are part of the job.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "model/epoch_plan.hpp"
#include "model/optimizer.hpp"

namespace troupe::model {

class dataset;
struct job;

/// The number of trainers from this global step on (0 for the run's first step).
struct membership {
  std::uint64_t first_step = 0;
  std::uint32_t trainers = 0;

  bool operator==(const membership&) const = default;
};

/// What stays constant when the number of trainers changes: the samples of a step, or of each trainer.
enum class elastic_batch_kind : std::uint8_t { total, rank };

/// How the learning rates follow the samples of a step.
enum class elastic_lr_rule : std::uint8_t { none, linear, sqrt };

/// The range of a job's number of trainers, and the number for each step.
struct elasticity {
  /// The fewest and the most trainers that the run may have; 0: their number is fixed.
  std::uint32_t trainers_min = 0;
  std::uint32_t trainers_max = 0;
  /// In order of their first steps, beginning with 0. Empty if the number of trainers is fixed.
  std::vector<membership> memberships;

  bool is_on() const { return trainers_max > 0; }
  bool operator==(const elasticity&) const = default;
};

/// Parses memberships such as `0:2,120:4`: STEP:TRAINERS, in the order of steps. The fault's message does not name the
/// setting.
result<std::vector<membership>> parse_memberships(std::string_view text);
std::string to_string(const std::vector<membership>& memberships);

/// Returns how many trainers a run has in global step `step` (from 0). Requires: there are memberships.
std::uint32_t trainers_at(const std::vector<membership>& memberships, std::uint64_t step);

/// Returns the memberships of a run that has `trainers` trainers from `step` on. Later planned changes are dropped.
std::vector<membership> changed(std::vector<membership> memberships, std::uint64_t step, std::uint32_t trainers);

/// Returns the step before which the number of trainers next changes, after `step`; null: it does not change.
std::optional<std::uint64_t> next_change(const std::vector<membership>& memberships, std::uint64_t step);

/// Returns the samples of a global step in which all ranks have a full batch, with `trainers` trainers.
std::uint64_t samples_of_step(const job& what, std::uint32_t trainers);

/// Returns the samples of the run's first step, the basis of values that must not depend on later memberships.
std::uint64_t first_step_samples(const job& what);

/// Returns how epochs of `rows` rows are cut into the job's steps.
epoch_plan epochs_of(const job& what, std::uint64_t rows);

/// Returns the most samples that a trainer has in a step, with the job's present number of trainers.
std::size_t batch_of_trainer(const job& what);

/// Returns the optimizer with the learning rate for the job's present number of trainers.
optimizer_spec with_rates_of_members(optimizer_spec spec, const job& what);

/// Returns why the job cannot have `trainers` trainers; null if it can.
std::optional<std::string> check_trainers(const job& what, std::uint32_t trainers);

/// Returns why the job on these data cannot continue with `trainers` trainers after `step` steps; null if it can.
std::optional<std::string> check_change(const job& what, const dataset& data, std::uint32_t trainers,
                                        std::uint64_t step);

}  // namespace troupe::model
