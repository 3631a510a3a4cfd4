#include "model/hybrid.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/assert.hpp"
#include "model/layer_network.hpp"
#include "model/mlp_network.hpp"

namespace troupe::model {

namespace {

/// Numbers of the networks, for their initial weights.
constexpr std::uint64_t top_number = 0;
constexpr std::uint64_t bottom_number = 1;

/// Width of the top network's input.
std::size_t joined_width(const job& what, const data_spec& spec) {
  const input_layout input(spec);
  const bool bottom = has_bottom(what, spec);
  const std::size_t of_bottom = bottom ? spec.tables.front().dim : 0;
  if (what.interaction == interaction_kind::dot)
    return of_bottom + kernels::pair_count((bottom ? 1 : 0) + spec.tables.size());
  return bottom ? of_bottom + input.width - spec.dense_features : input.width;
}

std::unique_ptr<const network> make_top(const data_spec& spec, const job& what) {
  if (const auto layers = top_layers(what, spec); !layers.empty())
    return make_layers_of_top(spec, what, {0, layers.size()});
  return std::make_unique<mlp_network>(mlp(joined_width(what, spec), what.hidden, spec.outputs), top_number);
}

void append_named(const char* part, std::size_t first, std::vector<named_parameter> tensors,
                  std::vector<named_parameter>& all) {
  for (named_parameter& one : tensors)
    all.push_back({fmt::format("{}.{}", part, one.name), std::move(one.shape), first + one.first});
}

job job_with(std::span<const std::size_t> hidden) {
  job what;
  what.hidden.assign(hidden.begin(), hidden.end());
  return what;
}

}  // namespace

std::vector<layer_spec> mlp_layers(std::span<const std::size_t> hidden, std::size_t out) {
  std::vector<layer_spec> all;
  for (const std::size_t width : hidden) {
    all.push_back({.kind = layer_kind::linear, .out = width});
    all.push_back({.kind = layer_kind::relu});
  }
  all.push_back({.kind = layer_kind::linear, .out = out});
  return all;
}

bool has_bottom(const job& what, const data_spec& spec) {
  return what.interaction != interaction_kind::cat && spec.dense_features > 0 && !spec.tables.empty();
}

std::vector<layer_spec> top_layers(const job& what, const data_spec& spec) {
  std::vector<layer_spec> all = what.layers;
  if (what.interaction != interaction_kind::dcn) return all;
  if (all.empty()) all = mlp_layers(what.hidden, spec.outputs);
  all.insert(all.begin(), {.kind = layer_kind::low_rank_cross,
                           .rank = what.cross_rank.value_or(default_cross_rank),
                           .layers = what.cross_layers.value_or(default_cross_layers)});
  return all;
}

std::vector<layer_spec> layers_of_top(const job& what, const data_spec& spec) {
  std::vector<layer_spec> all = top_layers(what, spec);
  return all.empty() ? mlp_layers(what.hidden, spec.outputs) : all;
}

sample_shape top_input(const job& what, const data_spec& spec) {
  const bool is_image = !spec.image.empty() && spec.tables.empty() && what.interaction == interaction_kind::cat;
  return is_image ? spec.image : sample_shape{joined_width(what, spec)};
}

hybrid_model::hybrid_model(const data_spec& spec, std::span<const std::size_t> hidden)
    : hybrid_model(spec, job_with(hidden)) {}

std::unique_ptr<const network> make_layers_of_top(const data_spec& spec, const job& what, layer_range part,
                                                  std::uint32_t slices) {
  sample_shape in = top_input(what, spec);
  if (top_layers(what, spec).empty()) in = {count_of(in)};  // an MLP takes images as rows
  auto made = layer_network::make_part(layers_of_top(what, spec), in, part, top_number, slices);
  TROUPE_ASSERT(made);
  return std::make_unique<layer_network>(std::move(*made));
}

hybrid_model::hybrid_model(const data_spec& spec, const job& what) : hybrid_model(spec, what, make_top(spec, what)) {}

hybrid_model::hybrid_model(const data_spec& spec, const job& what, std::size_t end, std::uint32_t slices)
    : hybrid_model(spec, what, make_layers_of_top(spec, what, {0, end}, slices)) {}

hybrid_model::hybrid_model(const data_spec& spec, const job& what, std::unique_ptr<const network> top)
    : spec_(spec), interaction_(what.interaction), layout_(spec), top_(std::move(top)) {
  if (has_bottom(what, spec))
    bottom_.emplace(spec.dense_features, what.bottom_hidden.value_or(default_bottom_hidden()), spec.tables.front().dim,
                    kernels::activation::relu);
}

std::size_t hybrid_model::parameter_count() const { return bottom_count() + top_->parameter_count(); }

std::size_t hybrid_model::numbers_per_sample() const {
  std::size_t numbers = layout_.width;
  if (joins()) numbers += top_->in_features();
  if (bottom_) numbers += bottom_->in_features() + bottom_->out_features() + bottom_->numbers_per_sample();
  return 2 * numbers + top_->numbers_per_sample();
}

std::uint64_t hybrid_model::multiply_adds() const {
  std::uint64_t all = top_->multiply_adds();
  if (bottom_) all += bottom_->multiply_adds();
  if (interaction_ == interaction_kind::dot)
    all += kernels::pair_count((bottom_ ? 1 : 0) + spec_.tables.size()) * spec_.tables.front().dim;
  return all;
}

std::vector<float> hybrid_model::initial_parameters(std::uint64_t seed) const {
  std::vector<float> all;
  if (bottom_) all = bottom_->initial_parameters(seed, bottom_number);
  const std::vector<float> of_top = top_->initial_parameters(seed);
  all.insert(all.end(), of_top.begin(), of_top.end());
  return all;
}

std::vector<parameter_range> hybrid_model::ranges() const {
  std::vector<parameter_range> all;
  if (bottom_) all = bottom_->ranges();
  for (const parameter_range& range : top_->ranges()) all.push_back({bottom_count() + range.first, range.count});
  return all;
}

std::vector<named_parameter> hybrid_model::parameters() const {
  std::vector<named_parameter> all;
  if (bottom_) append_named("bottom", 0, bottom_->parameters(), all);
  append_named("top", bottom_count(), top_->parameters(), all);
  return all;
}

std::vector<named_parameter> hybrid_model::buffers() const {
  std::vector<named_parameter> all;
  append_named("top", 0, top_->buffers(), all);
  return all;
}

std::unique_ptr<network::activations> hybrid_model::make_activations() const {
  auto made = std::make_unique<activations>();
  made->top = top_->make_activations();
  return made;
}

float* hybrid_model::forward(kernels::stream& on, const pass_mode& mode, std::size_t size, const tensors& numbers,
                             const float* input, network::activations& kept) const {
  auto& a = static_cast<activations&>(kept);
  if (!joins()) return top_->forward(on, mode, size, numbers, input, *a.top);
  interact(on, mode, size, numbers.parameters, input, a);
  return top_->forward(on, mode, size, of_top(numbers), a.joined.data(), *a.top);
}

void hybrid_model::backward_inputs(kernels::stream& on, const pass_mode& mode, std::size_t size, const tensors& numbers,
                                   const float* input, network::activations& kept, const float* grad_outputs,
                                   float* grad_input) const {
  auto& a = static_cast<activations&>(kept);
  if (!joins()) return top_->backward_inputs(on, mode, size, numbers, input, *a.top, grad_outputs, grad_input);
  a.grad_joined.resize(on, a.joined.size());
  top_->backward_inputs(on, mode, size, of_top(numbers), a.joined.data(), *a.top, grad_outputs, a.grad_joined.data());
  interact_backward(on, size, input, a, grad_input);
  if (bottom_) bottom_->backward_inputs(on, size, numbers.parameters, a.bottom, a.grad_of_bottom.data(), nullptr);
}

void hybrid_model::backward_parameters(kernels::stream& on, std::size_t size, const float* input,
                                       const network::activations& kept, const float* grad_outputs,
                                       const std::function<float*(parameter_range)>& grad_at,
                                       const std::function<void(parameter_range)>& finished) const {
  const auto& a = static_cast<const activations&>(kept);
  if (!joins()) return top_->backward_parameters(on, size, input, *a.top, grad_outputs, grad_at, finished);
  const auto in_whole = [first = bottom_count()](parameter_range of_top) {
    return parameter_range{first + of_top.first, of_top.count};
  };
  top_->backward_parameters(
      on, size, a.joined.data(), *a.top, grad_outputs, [&](parameter_range range) { return grad_at(in_whole(range)); },
      [&](parameter_range range) { finished(in_whole(range)); });
  if (bottom_)
    bottom_->backward_parameters(on, size, a.dense.data(), a.bottom, a.grad_of_bottom.data(), grad_at, finished);
}

/// The interacting vectors as matrices [size, width]: the bottom MLP's output if there is one, then the tables'
/// columns.
template <class T>
std::vector<kernels::row_matrix<T>> hybrid_model::vectors(T* of_bottom, T* input) const {
  std::vector<kernels::row_matrix<T>> all;
  if (bottom_) all.push_back({of_bottom, bottom_->out_features()});
  for (const std::size_t column : layout_.columns) all.push_back({input + column, layout_.width});
  return all;
}

/// Fills `a.joined`: the bottom MLP's output, then the dots or the tables' pooled rows.
void hybrid_model::interact(kernels::stream& on, const pass_mode& mode, std::size_t size, const float* parameters,
                            const float* input, activations& a) const {
  const std::size_t width = top_->in_features();
  const std::size_t dim = spec_.tables.front().dim;
  const std::size_t features = spec_.dense_features;
  a.joined.resize(on, size * width);
  const float* of_bottom = nullptr;
  if (bottom_) {
    a.dense.resize(on, size * features);
    on.copy_columns(size, features, {input, layout_.width}, {a.dense.data(), features});
    of_bottom = bottom_->forward(on, size, parameters, a.dense.data(), a.bottom, mode.training);
    on.copy_columns(size, dim, {of_bottom, dim}, {a.joined.data(), width});
  }
  const kernels::row_matrix<float> rest{a.joined.data() + (bottom_ ? dim : 0), width};
  if (interaction_ == interaction_kind::dot)
    on.pairwise_dots(size, dim, vectors(of_bottom, input), rest);
  else
    on.copy_columns(size, width - dim, {input + features, layout_.width}, rest);
}

/// Computes from `a.grad_joined` the gradients of the bottom MLP's output and of the tables' rows.
void hybrid_model::interact_backward(kernels::stream& on, std::size_t size, const float* input, activations& a,
                                     float* grad_input) const {
  const std::size_t width = top_->in_features();
  const std::size_t dim = spec_.tables.front().dim;
  const std::size_t features = spec_.dense_features;
  const kernels::row_matrix<const float> direct{a.grad_joined.data(), width};
  if (bottom_) a.grad_of_bottom.resize(on, size * dim);
  if (interaction_ == interaction_kind::dot) {
    const float* of_bottom = bottom_ ? a.bottom.outputs.back().data() : nullptr;
    on.pairwise_dots_backward(size, dim, vectors(of_bottom, input), {a.grad_joined.data() + (bottom_ ? dim : 0), width},
                              vectors(a.grad_of_bottom.data(), grad_input));
    if (!bottom_) return;
    // The bottom MLP's output is also a direct input of the top network.
    on.add_columns(size, dim, direct, {a.grad_of_bottom.data(), dim});
  } else {
    on.copy_columns(size, dim, direct, {a.grad_of_bottom.data(), dim});
    on.copy_columns(size, width - dim, {a.grad_joined.data() + dim, width}, {grad_input + features, layout_.width});
  }
  if (a.zeros.size() < features) {
    a.zeros.resize(on, features);
    on.fill(features, 0.0F, a.zeros.data());
  }
  on.copy_columns(size, features, {a.zeros.data(), 0}, {grad_input, layout_.width});
}

void hybrid_model::activations::append_addresses(std::vector<const void*>& to) const {
  bottom.append_addresses(to);
  top->append_addresses(to);
  for (const auto* one : {&dense, &joined, &grad_joined, &grad_of_bottom}) to.push_back(one->data());
}

loss_function loss_of(loss_kind kind, std::size_t count) {
  return [kind, count](kernels::stream& on, kernels::batch_part samples, const loss_targets& targets, float* outputs,
                       double* loss) {
    switch (kind) {
      case loss_kind::cross_entropy:
        return on.softmax_cross_entropy(samples, count, outputs, targets.classes, outputs, loss);
      case loss_kind::bce_logits:
        return on.bce_with_logits(samples, count, outputs, targets.values, outputs, loss);
      case loss_kind::mse:
        return on.mean_squared_error(samples, count, outputs, targets.values, outputs, loss);
    }
  };
}

}  // namespace troupe::model
