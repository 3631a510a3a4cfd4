// How a job's network is cut into the stages of a pipeline: between layers of its top network (`layers_of_top`).
// Tables, bottom MLP and interaction are in the first stage. The parameters of a stage are a stretch of the whole
// network's.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/data.hpp"
#include "model/hybrid.hpp"
#include "model/job.hpp"
#include "model/network.hpp"

namespace troupe::model {

/// Checks that the job's network can be cut into its stages. Returns the first problem as a message; null if it can.
/// Requires: `check_network` accepts the job.
std::optional<std::string> check_stages(const job& what, const data_spec& spec);

/// Returns the layers of a stage. Requires: the job has `stages`, one or more.
layer_range layers_of_stage(const job& what, const data_spec& spec, std::size_t stage);

/// A stage's place in the whole network.
struct stage_tensors {
  parameter_range parameters;
  parameter_range buffers;
};
/// Returns the places of all stages. Requires: as above.
std::vector<stage_tensors> tensors_of_stages(const job& what, const data_spec& spec);

/// Returns where `stages` stages of layers begin that take so long, one after the other: the longest stage is as short
/// as can be. Requires: at least as many layers as stages.
std::vector<std::size_t> balanced_stages(std::span<const double> seconds, std::size_t stages);

/// Measures how long each layer takes for a micro-batch of the job on this thread, forward and backward, in seconds.
/// The first one has the bottom MLP and the interaction besides. Costs a few passes.
std::vector<double> measure_layers(const job& what, const data_spec& spec);

/// Returns where the job's stages begin by these measurements. The first one has a layer with parameters, by whose mean
/// all trainers agree. Requires: `check_stages` accepts the job.
std::vector<std::size_t> measured_stages(const job& what, const data_spec& spec);

/// The share of a step in which a stage has nothing to do, where all take equally long.
constexpr double bubble_of(std::size_t stages, std::size_t micro_batches) {
  const auto idle = static_cast<double>(stages - 1);
  return idle / (static_cast<double>(micro_batches) + idle);
}

}  // namespace troupe::model
