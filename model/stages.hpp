// How a job's network is cut into parts, each with its own trainer: into the stages of a pipeline, and these into the
// slices of tensor parallelism (`tensor_parallel.hpp`). Part p is slice p % slices of stage p / slices. Stages begin
// between layers of the top network (`layers_of_top`), never within a pair that slices share. Tables, bottom MLP and
// interaction are in the first stage, in every slice of it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/data.hpp"
#include "model/hybrid.hpp"
#include "model/job.hpp"
#include "model/part_tensors.hpp"
#include "model/pipeline_executor.hpp"

namespace troupe::model {

/// Checks whether the job's network can be cut into its parts. Returns the first problem as a message, or null.
/// Requires: `check_network` accepts the job.
std::optional<std::string> check_parts(const job& what, const data_spec& spec);

/// Returns the stage and slice of a part of a job's network.
stage_place place_of_part(const job& what, std::uint32_t part);

/// Returns the layers of a stage. Requires: the job has its `stages`, or is no pipeline.
layer_range layers_of_stage(const job& what, const data_spec& spec, std::size_t stage);

/// Makes the network of a stage's slices. Requires: as above.
network make_stage(const job& what, const data_spec& spec, std::size_t stage);

/// Returns the positions of all parts' numbers. Requires: as above.
network_parts parts_of_network(const job& what, const data_spec& spec);

/// Cuts layers that need `seconds` each into `stages` stages so that the longest stage is as short as possible; returns
/// where the stages begin. Requires: at least as many layers as stages.
std::vector<std::size_t> balanced_stages(std::span<const double> seconds, std::size_t stages);

/// Measures the seconds that each layer needs for a micro-batch of the job on this thread, forward and backward. The
/// first layer includes the bottom MLP and the interaction. Costs a few passes.
std::vector<double> measure_layers(const job& what, const data_spec& spec);

/// Returns where the job's stages begin, by these measurements, or by the layers' sizes if steps overlap. The first
/// stage has a layer with parameters, since all trainers agree on votes with its gradient. Requires: `check_parts`
/// accepts the job.
std::vector<std::size_t> measured_stages(const job& what, const data_spec& spec);

/// The idle share of a stage in a step, if all stages take equally long.
constexpr double bubble_of(std::size_t stages, std::size_t micro_batches) {
  const auto idle = static_cast<double>(stages - 1);
  return idle / (static_cast<double>(micro_batches) + idle);
}

}  // namespace troupe::model
