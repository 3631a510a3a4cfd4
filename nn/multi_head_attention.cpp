#include "nn/multi_head_attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "kernels/device.hpp"
#include "kernels/random_bits.hpp"
#include "nn/option_fields.hpp"
#include "nn/samples.hpp"

namespace troupe::nn {

namespace {

// The indices of the parameters.
enum : std::size_t { in_weight, in_bias, out_weight, out_bias };

constexpr auto transposed = kernels::factor_form::transposed;

float scale_of(std::size_t width) { return 1 / std::sqrt(static_cast<float>(width)); }

}  // namespace

const option_fields<multi_head_attention_options>& multi_head_attention_options::fields() {
  using options = multi_head_attention_options;
  static const auto all =
      option_fields<options>()
          .whole("heads", &options::heads, 1, layer_width_max)
          .that(
              "divides the features of a step", [](const options& of) { return of.features % of.heads == 0; },
              [](const options& of) { return std::to_string(of.features); })
          .truth("causal", &options::causal)
          .whole("steps", &options::steps, 1, layer_width_max, false);
  return all;
}

void multi_head_attention_options::fit(const troupe::shape& sample) {
  const auto sequence = find_sequence(sample, steps);
  features = sequence ? (*sequence)[1] : heads;  // `output` reports why
}

multi_head_attention::multi_head_attention(const options& chosen) : layer(checked(chosen)) {
  check_length(options::kind, "features", chosen.features);
}

std::vector<parameter> multi_head_attention::parameters() const {
  const std::size_t width = chosen_.features;
  return {{"in_proj_weight", {3 * width, width}},
          {"in_proj_bias", {3 * width}},
          {"out_proj.weight", {width, width}},
          {"out_proj.bias", {width}}};
}

void multi_head_attention::initialize(std::uint64_t key, const tensor_list<float>& parameters,
                                      const tensor_list<float>& /*buffers*/) const {
  const auto bound = static_cast<float>(std::sqrt(6.0 / (4.0 * static_cast<double>(chosen_.features))));
  const auto projection = parameters[in_weight];
  for (std::size_t i = 0; i < projection.size(); ++i) projection[i] = kernels::uniform(key, i, -bound, bound);
  fill_uniform(key, projection.size(), parameters[out_weight].size(), chosen_.features, parameters[out_weight].data());
  std::ranges::fill(parameters[in_bias], 0.0F);
  std::ranges::fill(parameters[out_bias], 0.0F);
}

troupe::shape multi_head_attention::output(const tensor_view& input) const {
  const std::size_t steps = sequence_of(*this, input, chosen_.steps, chosen_.features)[0];
  if (steps > sample_max / steps / chosen_.heads)
    refuse(*this, fmt::format("its scores of {} x {} x {} are more than {} numbers a sample; take shorter sequences or "
                              "fewer heads",
                              chosen_.heads, steps, steps, sample_max));
  return {input.shape()[0], steps, chosen_.features};
}

/// The saved numbers. A row is a step of a sample. Each head has a matrix of all rows, head after head: so a head's
/// numbers of one sample are a matrix [steps, width].
struct multi_head_attention::kept_numbers {
  std::size_t samples;
  std::size_t steps;
  float* projected;      // [rows, 3 features]; in the backward pass, the gradients of queries, keys and values
  float* queries;        // then keys and values, [3, heads, rows, width]; after the backward pass, the gradient of
                         // `projected`
  float* probabilities;  // [heads, rows, steps]
  float* grad_scores;    // [heads, rows, steps]
  float* of_heads;       // the heads' results, [heads, rows, width]; in the backward pass, their gradient
  float* joined;         // the same numbers as [rows, features]
  std::size_t count;     // how many numbers all of these have

  std::size_t rows() const { return samples * steps; }
  const float* keys(std::size_t features) const { return queries + rows() * features; }
  const float* values(std::size_t features) const { return queries + 2 * rows() * features; }
};

multi_head_attention::kept_numbers multi_head_attention::kept_of(const tensor_view& input, const kernels::stream& on,
                                                                 float* saved) const {
  kept_numbers kept{};
  kept.samples = input.shape()[0];
  kept.steps = input.count() / kept.samples / chosen_.features;
  const auto next = [&](std::size_t of_row) {
    const std::size_t count = aligned(on, kept.rows() * of_row);
    const std::size_t at = std::exchange(kept.count, kept.count + count);
    return saved != nullptr ? saved + at : nullptr;
  };
  kept.projected = next(3 * chosen_.features);
  kept.queries = next(3 * chosen_.features);
  kept.probabilities = next(chosen_.heads * kept.steps);
  kept.grad_scores = next(chosen_.heads * kept.steps);
  kept.of_heads = next(chosen_.features);
  kept.joined = next(chosen_.features);
  return kept;
}

std::size_t multi_head_attention::saved(const tensor_view& input, const kernels::stream& on) const {
  return kept_of(input, on, nullptr).count;
}

/// Splits rows [rows, width] into one matrix per head, one after the other; the heads begin at column 0 and have equal
/// widths.
void multi_head_attention::split(kernels::stream& on, const kept_numbers& kept, const float* rows, std::size_t width,
                                 float* to) const {
  const std::size_t of_head = chosen_.features / chosen_.heads;
  for (std::size_t first = 0; first < width; first += of_head)
    on.copy_columns(kept.rows(), of_head, {rows + first, width}, {to + first * kept.rows(), of_head});
}

void multi_head_attention::join(kernels::stream& on, const kept_numbers& kept, const float* from, std::size_t width,
                                float* rows) const {
  const std::size_t of_head = chosen_.features / chosen_.heads;
  for (std::size_t first = 0; first < width; first += of_head)
    on.copy_columns(kept.rows(), of_head, {from + first * kept.rows(), of_head}, {rows + first, width});
}

void multi_head_attention::forward(const pass& how, const pass_numbers& numbers) const {
  kernels::stream& on = how.stream;
  const std::size_t features = chosen_.features;
  const kept_numbers kept = kept_of(numbers.input, on, numbers.saved.data());
  const std::size_t steps = kept.steps;
  const std::size_t width = features / chosen_.heads;
  const std::size_t matrices = chosen_.heads * kept.samples;
  const auto parameters = numbers.parameters;
  const auto none = kernels::activation::none;
  on.linear_forward(kept.rows(), features, 3 * features, numbers.input.as<float>().data(), parameters[in_weight].data(),
                    parameters[in_bias].data(), none, kept.projected);
  split(on, kept, kept.projected, 3 * features, kept.queries);
  on.batched_product({.count = matrices, .m = steps, .n = steps, .k = width, .b = transposed}, kept.queries,
                     kept.keys(features), kept.probabilities);
  on.softmax_forward(matrices * steps, steps, scale_of(width), chosen_.causal, kept.probabilities, kept.probabilities);
  on.batched_product({.count = matrices, .m = steps, .n = width, .k = steps}, kept.probabilities, kept.values(features),
                     kept.of_heads);
  join(on, kept, kept.of_heads, features, kept.joined);
  on.linear_forward(kept.rows(), features, features, kept.joined, parameters[out_weight].data(),
                    parameters[out_bias].data(), none, numbers.output.data());
}

/// Computes the gradient of the projected input.
void multi_head_attention::backward_projected(const pass& how, const pass_numbers& numbers, const kept_numbers& kept,
                                              const float* grad_y) const {
  kernels::stream& on = how.stream;
  const std::size_t features = chosen_.features;
  const std::size_t steps = kept.steps;
  const std::size_t width = features / chosen_.heads;
  const std::size_t matrices = chosen_.heads * kept.samples;
  const std::size_t all = kept.rows() * features;
  on.linear_backward_input(kept.rows(), features, features, numbers.parameters[out_weight].data(), grad_y,
                           kept.projected);
  split(on, kept, kept.projected, features, kept.of_heads);
  float* const grad_queries = kept.projected;
  on.batched_product({.count = matrices, .m = steps, .n = steps, .k = width, .b = transposed}, kept.of_heads,
                     kept.values(features), kept.grad_scores);
  on.batched_product({.count = matrices, .m = steps, .n = width, .k = steps, .a = transposed}, kept.probabilities,
                     kept.of_heads, grad_queries + 2 * all);
  on.softmax_backward(matrices * steps, steps, scale_of(width), kept.probabilities, kept.grad_scores, kept.grad_scores);
  on.batched_product({.count = matrices, .m = steps, .n = width, .k = steps}, kept.grad_scores, kept.keys(features),
                     grad_queries);
  on.batched_product({.count = matrices, .m = steps, .n = width, .k = steps, .a = transposed}, kept.grad_scores,
                     kept.queries, grad_queries + all);
  join(on, kept, grad_queries, 3 * features, kept.queries);
}

void multi_head_attention::backward(const pass& how, const pass_numbers& numbers, const gradients& of) const {
  kernels::stream& on = how.stream;
  const std::size_t features = chosen_.features;
  const kept_numbers kept = kept_of(numbers.input, on, numbers.saved.data());
  if (!how.is_second_backward) backward_projected(how, numbers, kept, of.output.data());
  if (of.input && !how.is_second_backward)
    on.linear_backward_input(kept.rows(), features, 3 * features, numbers.parameters[in_weight].data(), kept.queries,
                             of.input.data());
  if (!of.parameters) return;
  const auto grad = of.parameters;
  on.linear_backward_parameters(kept.rows(), features, 3 * features, numbers.input.as<float>().data(), kept.queries,
                                grad[in_weight].data(), grad[in_bias].data());
  on.linear_backward_parameters(kept.rows(), features, features, kept.joined, of.output.data(), grad[out_weight].data(),
                                grad[out_bias].data());
}

std::uint64_t multi_head_attention::multiply_adds(const tensor_view& input) const {
  const std::uint64_t features = chosen_.features;
  const std::uint64_t steps = input.count() / input.shape()[0] / features;
  return input.count() * (4 * features + 2 * steps);
}

}  // namespace troupe::nn
