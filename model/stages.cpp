#include "model/stages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "base/assert.hpp"
#include "base/mapped.hpp"
#include "kernels/device.hpp"
#include "model/tensor_parallel.hpp"
#include "nn/samples.hpp"

namespace troupe::model {

namespace {

bool has_parameters(const nn::module& of) { return nn::count_of(of.parameters()) > 0; }

const char* network_option(const job& what) { return what.layers.empty() ? "--hidden" : "--layers"; }

/// The layers at which a stage may begin: not within a pair of layers that slices share. If several trainers must
/// agree, the second stage begins only after a layer with parameters.
std::vector<std::size_t> possible_begins(const job& what, const data_spec& spec) {
  const std::size_t layers = layers_of_top(what, spec).size();
  const auto cuts = what.tensor_parallel > 1 ? cuts_of(make_top(spec, what)) : std::vector<layer_cut>(layers);
  std::vector<std::size_t> begins{0};
  bool is_amid_pair = false;
  for (std::size_t i = 0; i < layers; ++i) {
    if (i > 0 && !is_amid_pair &&
        (begins.size() > 1 || what.trainers == 1 || has_parameters(hybrid_model(spec, what, i))))
      begins.push_back(i);
    if (cuts[i] != layer_cut::none) is_amid_pair = cuts[i] == layer_cut::outputs;
  }
  return begins;
}

std::optional<std::string> check_given_stages(const job& what, const data_spec& spec, std::size_t layers,
                                              const std::vector<std::size_t>& possible) {
  const auto text = fmt::format("--stages {}", fmt::join(what.stages, ","));
  if (what.stages.size() != what.pipeline)
    return fmt::format("{}: begins {} stage(s), and --pipeline is {}; give the first layer of each stage", text,
                       what.stages.size(), what.pipeline);
  if (what.stages.back() >= layers)
    return fmt::format("{}: there is no layer {}; the network's layers ({}) are 0 to {}", text, what.stages.back(),
                       network_option(what), layers - 1);
  for (const std::size_t begin : what.stages) {
    if (std::ranges::find(possible, begin) != possible.end()) continue;
    if (!has_parameters(hybrid_model(spec, what, begin)))
      return fmt::format("{}: stage 0 has no parameters, by whose gradient the trainers agree; begin stage 1 later",
                         text);
    return fmt::format(
        "{}: layer {} is amid a pair whose slices need each other (--tensor-parallel {}); stages may "
        "begin at {}",
        text, begin, what.tensor_parallel, fmt::join(possible, ", "));
  }
  return std::nullopt;
}

std::optional<std::string> check_stages(const job& what, const data_spec& spec) {
  const std::size_t layers = layers_of_top(what, spec).size();
  if (what.pipeline > layers)
    return fmt::format("--pipeline {}: the network has only {} layer{} ({}) to cut into stages; use at most {}",
                       what.pipeline, layers, layers == 1 ? "" : "s", network_option(what), layers);
  const auto possible = possible_begins(what, spec);
  if (!what.stages.empty()) return check_given_stages(what, spec, layers, possible);
  if (what.pipeline <= possible.size()) return std::nullopt;
  if (what.tensor_parallel > 1)
    return fmt::format(
        "--pipeline {}: pairs of layers that slices share (--tensor-parallel {}) stay together, so there can be {} "
        "stage{} at most",
        what.pipeline, what.tensor_parallel, possible.size(), possible.size() == 1 ? "" : "s");
  return fmt::format("--pipeline {}: the first stage needs a layer with parameters ({}), so there can be {} at most",
                     what.pipeline, network_option(what), possible.size());
}

}  // namespace

std::optional<std::string> check_parts(const job& what, const data_spec& spec) {
  if (what.parts() == 1) return std::nullopt;
  if (hybrid_model(spec, what).synchronizes())
    return fmt::format(
        "{}: a batch_norm with synchronized = true asks all ranks amid its pass; leave out synchronized, or the option",
        parts_option(what));
  if (auto wrong = check_slices(make_top(spec, what), what.tensor_parallel,
                                fmt::format("--tensor-parallel {}", what.tensor_parallel), network_option(what)))
    return wrong;
  return what.pipeline == 1 ? std::nullopt : check_stages(what, spec);
}

stage_place place_of_part(const job& what, std::uint32_t part) {
  const std::uint32_t slices = what.tensor_parallel;
  return {part / slices, what.pipeline, what.schedule, {part % slices, slices}};
}

layer_range layers_of_stage(const job& what, const data_spec& spec, std::size_t stage) {
  const std::size_t layers = layers_of_top(what, spec).size();
  if (what.pipeline == 1) return {0, layers};
  TROUPE_ASSERT(stage < what.stages.size());
  const bool is_last = stage + 1 == what.stages.size();
  return {what.stages[stage], is_last ? layers : what.stages[stage + 1]};
}

network make_stage(const job& what, const data_spec& spec, std::size_t stage) {
  const layer_range layers = layers_of_stage(what, spec, stage);
  if (stage == 0) return as_network(hybrid_model(spec, what, layers.end, what.tensor_parallel));
  return make_layers_of_top(spec, what, layers, what.tensor_parallel);
}

network_parts parts_of_network(const job& what, const data_spec& spec) {
  const auto whole = hybrid_model(spec, what).parameters();
  network_parts found{nn::count_of(whole), 0, {}};
  std::size_t tensor = 0;
  for (std::size_t stage = 0; stage < what.pipeline; ++stage) {
    const network cut = make_stage(what, spec, stage);
    const auto mine = cut.module->parameters();
    const std::size_t buffers = nn::count_of(cut.module->buffers());
    const auto its = std::span(whole).subspan(tensor, mine.size());
    for (std::uint32_t slice = 0; slice < what.tensor_parallel; ++slice)
      found.parts.push_back({places_of_slice(its, mine, slice), {found.buffers, buffers}});
    tensor += mine.size();
    found.buffers += buffers;
  }
  return found;
}

std::vector<std::size_t> balanced_stages(std::span<const double> seconds, std::size_t stages) {
  const std::size_t layers = seconds.size();
  TROUPE_ASSERT(stages > 0 && stages <= layers);
  // longest[k][n]: the longest of k + 1 stages with the first n layers; begins[k][n]: where the last of these stages
  // begins.
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
  const troupe::shape in = nn::batch_of(size, what.in);
  const troupe::shape out = what.module->output(in);
  const auto parameters = nn::placed(what.module->parameters());
  const auto buffers = nn::placed(what.module->buffers());
  auto initial = nn::initial_numbers(*what.module, seed);
  const std::vector<float> input(in.count(), 0.5F);
  const std::vector<float> grad_output(out.count(), 0.5F);
  std::vector<float> output(out.count());
  std::vector<float> saved(what.module->saved(in, on));
  std::vector<float> grad_input(in.count());
  std::vector<float> grad(initial.parameters.size());
  const nn::pass mode{.stream = on, .training = true};
  const nn::pass_numbers numbers{.parameters = {initial.parameters.data(), parameters},
                                 .buffers = {initial.buffers.data(), buffers},
                                 .input = {in, input.data()},
                                 .output = {output.data(), out},
                                 .saved = saved};
  double shortest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < times; ++i) {
    const auto begin = clock::now();
    what.module->forward(mode, numbers);
    what.module->backward(mode, numbers,
                          {.output = {grad_output.data(), out},
                           .input = {grad_input.data(), in},
                           .parameters = {grad.data(), parameters}});
    shortest = std::min(shortest, std::chrono::duration<double>(clock::now() - begin).count());
  }
  return shortest;
}

/// Layer `i` of the top network alone; the first layer includes the bottom MLP and the interaction.
network layer_alone(const job& what, const data_spec& spec, std::size_t i) {
  return i == 0 ? as_network(hybrid_model(spec, what, 1)) : make_layers_of_top(spec, what, {i, i + 1});
}

}  // namespace

std::vector<double> measure_layers(const job& what, const data_spec& spec) {
  constexpr std::uint64_t multiply_adds_max = std::uint64_t{1} << 30;
  const auto samples = static_cast<std::size_t>(samples_per_step(what)) / what.micro_batches;
  const std::uint64_t of_sample = std::max<std::uint64_t>(as_network(hybrid_model(spec, what)).multiply_adds(), 1);
  const std::size_t size =
      std::clamp<std::size_t>(samples, 2, std::max<std::uint64_t>(multiply_adds_max / of_sample, 2));
  std::vector<double> seconds;
  for (std::size_t i = 0; i < layers_of_top(what, spec).size(); ++i)
    seconds.push_back(measure(layer_alone(what, spec, i), size, what.seed));
  return seconds;
}

namespace {

/// Returns the numbers that a layer keeps for a sample, besides its output and the output's gradient.
std::size_t saved_by(const nn::layer_spec& layer, const nn::made_layer& made) {
  const auto* residual = layer.as<nn::residual>();
  if (residual == nullptr) return made.what->saved(nn::batch_of(1, made.in), kernels::host_stream());
  std::size_t numbers = 0;
  const auto inner = nn::make_layers(residual->layers, made.in);
  TROUPE_ASSERT(inner);
  for (std::size_t i = 0; i < inner->size(); ++i) {
    numbers += saved_by(residual->layers[i], (*inner)[i]);
    if (i + 1 < inner->size()) numbers += 2 * (*inner)[i].out.count();
  }
  return numbers;
}

/// Returns each layer's cost from its products and outputs alone: if the cut affects the results, it must depend
/// neither on measurements nor on how passes use memory.
std::vector<double> count_layers(const job& what, const data_spec& spec) {
  const auto layers = layers_of_top(what, spec);
  const auto made = nn::make_layers(layers, top_input(what, spec));
  TROUPE_ASSERT(made);
  std::vector<double> costs;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::size_t cost = 2 * (*made)[i].out.count() + saved_by(layers[i], (*made)[i]);
    if (i == 0) {
      std::size_t numbers = input_layout(spec).width;
      if (has_bottom(what, spec) || what.interaction == interaction_kind::dot) numbers += (*made)[0].in.count();
      if (has_bottom(what, spec)) {
        numbers += spec.dense_features + spec.tables.front().dim;
        for (const nn::layer_spec& one : bottom_layers(what, spec))
          if (const auto* linear = one.as<nn::linear>()) numbers += linear->out_features;
      }
      cost += 2 * numbers;
    }
    costs.push_back(static_cast<double>(layer_alone(what, spec, i).multiply_adds() + cost));
  }
  return costs;
}

}  // namespace

std::vector<std::size_t> measured_stages(const job& what, const data_spec& spec) {
  const std::vector<double> seconds = what.streams() ? count_layers(what, spec) : measure_layers(what, spec);
  const std::vector<std::size_t> possible = possible_begins(what, spec);
  // The layers from one possible begin to the next stay together.
  std::vector<double> together(possible.size());
  for (std::size_t i = 0, block = 0; i < seconds.size(); ++i) {
    if (block + 1 < possible.size() && i == possible[block + 1]) ++block;
    together[block] += seconds[i];
  }
  return mapped(balanced_stages(together, what.pipeline), [&](std::size_t block) { return possible[block]; });
}

}  // namespace troupe::model
