// Checks whether a data set's batches satisfy the layers of a job's network.

#include <fmt/format.h>

#include <limits>

#include "model/elasticity.hpp"
#include "model/hybrid.hpp"

namespace troupe::model {

namespace {

/// Returns the first batch normalisation that gets only one value per channel, such as "layer 4 (batch_norm)"; none if
/// each gets more.
std::optional<std::string> find_single_values(const std::vector<nn::layer_spec>& specs, const troupe::shape& in) {
  const auto made = nn::make_layers(specs, in);
  if (!made) return std::nullopt;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const troupe::shape& shape = (*made)[i].in;
    if (specs[i].as<nn::batch_norm>() != nullptr && shape.count() == shape[0])
      return fmt::format("layer {} (batch_norm)", i);
    const auto* residual = specs[i].as<nn::residual>();
    if (residual == nullptr) continue;
    if (const auto within = find_single_values(residual->layers, shape))
      return fmt::format("{} of layer {}", *within, i);
  }
  return std::nullopt;
}

/// Describes a trainer's batch if one of its samples passes through the network alone; else null.
std::optional<std::string> single_sample(std::uint64_t batch_size, std::uint64_t micro_batches) {
  if (batch_size == 0 || batch_size >= 2 * micro_batches) return std::nullopt;
  if (micro_batches == 1) return "1 sample";
  return fmt::format("{} sample{} in {} micro-batches, one of them of 1 sample", batch_size, batch_size > 1 ? "s" : "",
                     micro_batches);
}

}  // namespace

std::optional<std::string> check_batches(const job& what, const dataset& data, std::uint64_t steps) {
  const auto single = find_single_values(what.layers, top_input(what, data.spec()));
  if (!single) return std::nullopt;
  constexpr const char* why = "and {} needs more than one value a channel; use another batch size";
  if (const auto has = single_sample(what.batch_size, what.micro_batches))
    return fmt::format("--batch-size {}: each batch has {}, {}", what.batch_size, *has,
                       fmt::format(fmt::runtime(why), *single));
  const auto rows = data.train_rows();
  if (!rows) return std::nullopt;
  const epoch_plan epochs = epochs_of(what, *rows);
  std::vector<std::uint64_t> first_steps = {0};
  for (const membership& one : what.elastic.memberships) first_steps.push_back(one.first_step);
  for (const std::uint64_t first : first_steps) {
    // A full batch, the last one of an epoch in which the number of trainers has changed, and the last one of a whole
    // epoch.
    const std::uint64_t epoch = epochs.of(first).epoch;
    for (const std::uint64_t step : {first, epochs.steps_until(epoch + 1) - 1, epochs.steps_until(epoch + 2) - 1}) {
      const epoch_plan::place at = epochs.of(step);
      for (std::uint64_t rank = 0; step < steps && rank < at.trainers; ++rank)
        if (const auto has = single_sample(at.size_of(rank), what.micro_batches))
          return fmt::format("--batch-size {}: batch {} of trainer {} has {} ({} rows over {} trainers), {}",
                             what.batch_size, at.step_of_epoch + 1, rank, *has, *rows, at.trainers,
                             fmt::format(fmt::runtime(why), *single));
    }
  }
  return std::nullopt;
}

std::optional<std::string> check_change(const job& what, const dataset& data, std::uint32_t trainers,
                                        std::uint64_t step) {
  if (auto wrong = check_trainers(what, trainers)) return wrong;
  if (trainers == what.trainers) return fmt::format("the run has {} trainers already", trainers);
  const auto rows = data.train_rows();
  if (rows && *rows < trainers)
    return fmt::format("{} has {} training rows, fewer than one for each", what.data, *rows);
  job after = what;
  after.elastic.memberships = changed(std::move(after.elastic.memberships), step, trainers);
  after.trainers = trainers;
  return check_batches(after, data, std::numeric_limits<std::uint64_t>::max());
}

}  // namespace troupe::model
