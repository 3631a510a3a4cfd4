#include "model/stages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "base/assert.hpp"
#include "kernels/device.hpp"

namespace troupe::model {

namespace {

/// How many layers there are up to the first one with parameters, which counts.
std::size_t layers_until_parameters(const job& what, const data_spec& spec) {
  const std::size_t layers = layers_of_top(what, spec).size();
  std::size_t count = 1;
  while (count < layers && hybrid_model(spec, what, count).parameter_count() == 0) ++count;
  return count;
}

const char* network_option(const job& what) { return what.layers.empty() ? "--hidden" : "--layers"; }

}  // namespace

std::optional<std::string> check_stages(const job& what, const data_spec& spec) {
  if (what.pipeline == 1) return std::nullopt;
  const std::size_t layers = layers_of_top(what, spec).size();
  if (what.pipeline > layers)
    return fmt::format("--pipeline {}: the network has only {} layer{} ({}) to cut into stages; use at most {}",
                       what.pipeline, layers, layers == 1 ? "" : "s", network_option(what), layers);
  if (hybrid_model(spec, what).synchronizes())
    return fmt::format(
        "--pipeline {}: a batch_norm with synchronized = true asks all ranks amid its pass; leave out "
        "synchronized, or the pipeline",
        what.pipeline);
  if (what.stages.empty()) {
    // The first stage has parameters, by whose gradient the trainers agree.
    const std::size_t most = what.trainers > 1 ? layers - layers_until_parameters(what, spec) + 1 : layers;
    if (what.pipeline <= most) return std::nullopt;
    return fmt::format("--pipeline {}: the first stage needs a layer with parameters ({}), so there can be {} at most",
                       what.pipeline, network_option(what), most);
  }
  const auto text = fmt::format("--stages {}", fmt::join(what.stages, ","));
  if (what.stages.size() != what.pipeline)
    return fmt::format("{}: begins {} stage(s), and --pipeline is {}; give the first layer of each stage", text,
                       what.stages.size(), what.pipeline);
  if (what.stages.back() >= layers)
    return fmt::format("{}: there is no layer {}; the network's layers ({}) are 0 to {}", text, what.stages.back(),
                       network_option(what), layers - 1);
  if (what.trainers > 1 && hybrid_model(spec, what, what.stages[1]).parameter_count() == 0)
    return fmt::format("{}: stage 0 has no parameters, by whose gradient the trainers agree; begin stage 1 later",
                       text);
  return std::nullopt;
}

layer_range layers_of_stage(const job& what, const data_spec& spec, std::size_t stage) {
  TROUPE_ASSERT(stage < what.stages.size());
  const bool is_last = stage + 1 == what.stages.size();
  return {what.stages[stage], is_last ? layers_of_top(what, spec).size() : what.stages[stage + 1]};
}

std::vector<stage_tensors> tensors_of_stages(const job& what, const data_spec& spec) {
  std::vector<stage_tensors> all;
  stage_tensors next;
  for (std::size_t stage = 0; stage < what.stages.size(); ++stage) {
    const layer_range layers = layers_of_stage(what, spec, stage);
    const std::unique_ptr<const network> part =
        stage == 0 ? std::make_unique<hybrid_model>(spec, what, layers.end) : make_layers_of_top(spec, what, layers);
    next.parameters.count = part->parameter_count();
    next.buffers.count = 0;
    for (const named_parameter& one : part->buffers()) next.buffers.count += one.count();
    all.push_back(next);
    next.parameters.first += next.parameters.count;
    next.buffers.first += next.buffers.count;
  }
  return all;
}

std::vector<std::size_t> balanced_stages(std::span<const double> seconds, std::size_t stages) {
  const std::size_t layers = seconds.size();
  TROUPE_ASSERT(stages > 0 && stages <= layers);
  // longest[k][n]: of the first n layers in k + 1 stages; begins[k][n]: where the last of these stages begins.
  std::vector longest(stages, std::vector<double>(layers + 1, std::numeric_limits<double>::infinity()));
  std::vector begins(stages, std::vector<std::size_t>(layers + 1, 0));
  double sum = 0;
  for (std::size_t n = 1; n <= layers; ++n) longest[0][n] = sum += seconds[n - 1];
  for (std::size_t k = 1; k < stages; ++k)
    for (std::size_t n = k + 1; n <= layers; ++n) {
      double last = 0;
      for (std::size_t begin = n - 1; begin >= k; --begin) {
        last += seconds[begin];
        const double with = std::max(longest[k - 1][begin], last);
        if (with < longest[k][n]) {
          longest[k][n] = with;
          begins[k][n] = begin;
        }
      }
    }
  std::vector<std::size_t> found(stages);
  for (std::size_t k = stages, n = layers; k-- > 0; n = found[k]) found[k] = begins[k][n];
  return found;
}

// -- measured ---------------------------------------------------------------------------------

namespace {

/// Returns the seconds of a training pass of `what`, the shortest of a few.
double measure(const network& what, std::size_t size, std::uint64_t seed) {
  using clock = std::chrono::steady_clock;
  constexpr int times = 3;
  kernels::stream& on = kernels::host_stream();
  std::vector<float> parameters = what.initial_parameters(seed);
  std::vector<float> buffers = what.initial_buffers();
  const std::vector<float> input(size * what.in_features(), 0.5F);
  const std::vector<float> grad_output(size * what.out_features(), 0.5F);
  std::vector<float> grad_input(input.size());
  std::vector<float> grad(what.parameter_count());
  const auto kept = what.make_activations();
  const pass_mode mode{.training = true};
  const network::tensors numbers{parameters.data(), buffers.data()};
  double shortest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < times; ++i) {
    const auto begin = clock::now();
    what.forward(on, mode, size, numbers, input.data(), *kept);
    what.backward_inputs(on, mode, size, numbers, input.data(), *kept, grad_output.data(), grad_input.data());
    what.backward_parameters(
        on, size, input.data(), *kept, grad_output.data(),
        [&](parameter_range range) { return grad.data() + range.first; }, [](parameter_range) {});
    shortest = std::min(shortest, std::chrono::duration<double>(clock::now() - begin).count());
  }
  return shortest;
}

}  // namespace

std::vector<double> measure_layers(const job& what, const data_spec& spec) {
  constexpr std::uint64_t multiply_adds_max = std::uint64_t{1} << 30;
  const auto samples = static_cast<std::size_t>(samples_per_step(what)) / what.micro_batches;
  const std::uint64_t of_sample = std::max<std::uint64_t>(hybrid_model(spec, what).multiply_adds(), 1);
  const std::size_t size =
      std::clamp<std::size_t>(samples, 2, std::max<std::uint64_t>(multiply_adds_max / of_sample, 2));
  std::vector<double> seconds;
  for (std::size_t i = 0; i < layers_of_top(what, spec).size(); ++i)
    seconds.push_back(i == 0 ? measure(hybrid_model(spec, what, 1), size, what.seed)
                             : measure(*make_layers_of_top(spec, what, {i, i + 1}), size, what.seed));
  return seconds;
}

std::vector<std::size_t> measured_stages(const job& what, const data_spec& spec) {
  const std::vector<double> seconds = measure_layers(what, spec);
  // The layers before the first one with parameters, and that one, stay together.
  std::size_t together = layers_until_parameters(what, spec);
  if (seconds.size() - together + 1 < what.pipeline) together = 1;
  std::vector<double> joined(seconds.begin() + static_cast<std::ptrdiff_t>(together - 1), seconds.end());
  for (std::size_t i = 0; i + 1 < together; ++i) joined.front() += seconds[i];
  std::vector<std::size_t> begins = balanced_stages(joined, what.pipeline);
  for (std::size_t stage = 1; stage < begins.size(); ++stage) begins[stage] += together - 1;
  return begins;
}

}  // namespace troupe::model
