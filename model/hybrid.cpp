#include "model/hybrid.hpp"

#include <fmt/format.h>

#include <utility>

namespace troupe::model {

namespace {

/// Width of the top MLP's input.
std::size_t joined_width(const data_spec& spec, interaction_kind interaction) {
  if (interaction == interaction_kind::cat) return input_layout(spec).width;
  const std::size_t bottom_vectors = spec.dense_features > 0 ? 1 : 0;
  return bottom_vectors * spec.tables.front().dim + kernels::pair_count(bottom_vectors + spec.tables.size());
}

/// Numbers of the two MLPs, for their initial weights.
constexpr std::uint64_t top_number = 0;
constexpr std::uint64_t bottom_number = 1;

}  // namespace

hybrid_model::hybrid_model(const data_spec& spec, loss_kind loss, interaction_kind interaction,
                           std::span<const std::size_t> bottom_hidden, std::span<const std::size_t> hidden)
    : spec_(spec),
      loss_(loss),
      interaction_(interaction),
      layout_(spec),
      top_(joined_width(spec, interaction), hidden, spec.outputs) {
  if (interaction == interaction_kind::dot && spec.dense_features > 0)
    bottom_.emplace(spec.dense_features, bottom_hidden, spec.tables.front().dim, kernels::activation::relu);
}

hybrid_model::hybrid_model(const data_spec& spec, std::span<const std::size_t> hidden, loss_kind loss)
    : hybrid_model(spec, loss, interaction_kind::cat, {}, hidden) {}

hybrid_model::hybrid_model(const data_spec& spec, const job& what)
    : hybrid_model(spec, what.loss, what.interaction, what.bottom_hidden.value_or(default_bottom_hidden()),
                   what.hidden) {}

std::size_t hybrid_model::parameter_count() const { return bottom_count() + top_.parameter_count(); }

std::size_t hybrid_model::numbers_per_sample() const {
  std::size_t numbers = layout_.width + top_.numbers_per_sample();
  if (interaction_ == interaction_kind::dot) numbers += top_.in_features();
  if (bottom_) numbers += bottom_->in_features() + bottom_->out_features() + bottom_->numbers_per_sample();
  return 2 * numbers;
}

std::vector<float> hybrid_model::initial_parameters(std::uint64_t seed) const {
  std::vector<float> all;
  if (bottom_) all = bottom_->initial_parameters(seed, bottom_number);
  const std::vector<float> of_top = top_.initial_parameters(seed, top_number);
  all.insert(all.end(), of_top.begin(), of_top.end());
  return all;
}

std::vector<parameter_range> hybrid_model::ranges() const {
  std::vector<parameter_range> all;
  if (bottom_) all = bottom_->ranges();
  for (const parameter_range& range : top_.ranges()) all.push_back({bottom_count() + range.first, range.count});
  return all;
}

std::vector<named_parameter> hybrid_model::parameters() const {
  std::vector<named_parameter> all;
  const auto append = [&all](const mlp& part, const char* name, std::size_t first) {
    for (named_parameter& one : part.parameters())
      all.push_back({fmt::format("{}.{}", name, one.name), std::move(one.shape), first + one.first});
  };
  if (bottom_) append(*bottom_, "bottom", 0);
  append(top_, "top", bottom_count());
  return all;
}

float* hybrid_model::forward(kernels::stream& on, const pass_mode& mode, std::size_t size, const tensors& numbers,
                             const float* input, network::activations& kept) const {
  auto& a = static_cast<activations&>(kept);
  if (interaction_ == interaction_kind::cat)
    return top_.forward(on, size, numbers.parameters, input, a.top, mode.training);
  interact(on, mode, size, numbers.parameters, input, a);
  return top_.forward(on, size, numbers.parameters + bottom_count(), a.joined.data(), a.top, mode.training);
}

void hybrid_model::backward_inputs(kernels::stream& on, const pass_mode&, std::size_t size, const tensors& numbers,
                                   const float* input, network::activations& kept, const float* grad_outputs,
                                   float* grad_input) const {
  auto& a = static_cast<activations&>(kept);
  const float* parameters = numbers.parameters;
  if (interaction_ == interaction_kind::cat)
    return top_.backward_inputs(on, size, parameters, a.top, grad_outputs, grad_input);
  a.grad_joined.resize(on, a.joined.size());
  top_.backward_inputs(on, size, parameters + bottom_count(), a.top, grad_outputs, a.grad_joined.data());
  interact_backward(on, size, input, a, grad_input);
  if (bottom_) bottom_->backward_inputs(on, size, parameters, a.bottom, a.grad_of_bottom.data(), nullptr);
}

void hybrid_model::backward_parameters(kernels::stream& on, std::size_t size, const float* input,
                                       const network::activations& kept, const float* grad_outputs,
                                       const std::function<float*(parameter_range)>& grad_at,
                                       const std::function<void(parameter_range)>& finished) const {
  const auto& a = static_cast<const activations&>(kept);
  if (interaction_ == interaction_kind::cat)
    return top_.backward_parameters(on, size, input, a.top, grad_outputs, grad_at, finished);
  const auto in_whole = [first = bottom_count()](parameter_range of_top) {
    return parameter_range{first + of_top.first, of_top.count};
  };
  top_.backward_parameters(
      on, size, a.joined.data(), a.top, grad_outputs, [&](parameter_range range) { return grad_at(in_whole(range)); },
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

/// Fills `a.joined`: the bottom MLP's output, then the dots.
void hybrid_model::interact(kernels::stream& on, const pass_mode& mode, std::size_t size, const float* parameters,
                            const float* input, activations& a) const {
  const std::size_t width = top_.in_features();
  const std::size_t dim = spec_.tables.front().dim;
  a.joined.resize(on, size * width);
  const float* of_bottom = nullptr;
  if (bottom_) {
    const std::size_t features = spec_.dense_features;
    a.dense.resize(on, size * features);
    on.copy_columns(size, features, {input, layout_.width}, {a.dense.data(), features});
    of_bottom = bottom_->forward(on, size, parameters, a.dense.data(), a.bottom, mode.training);
    on.copy_columns(size, dim, {of_bottom, dim}, {a.joined.data(), width});
  }
  on.pairwise_dots(size, dim, vectors(of_bottom, input), {a.joined.data() + (bottom_ ? dim : 0), width});
}

/// Computes from `a.grad_joined` the gradients of the bottom MLP's output and of the tables' rows.
void hybrid_model::interact_backward(kernels::stream& on, std::size_t size, const float* input, activations& a,
                                     float* grad_input) const {
  const std::size_t width = top_.in_features();
  const std::size_t dim = spec_.tables.front().dim;
  if (bottom_) a.grad_of_bottom.resize(on, size * dim);
  const float* of_bottom = bottom_ ? a.bottom.outputs.back().data() : nullptr;
  on.pairwise_dots_backward(size, dim, vectors(of_bottom, input), {a.grad_joined.data() + (bottom_ ? dim : 0), width},
                            vectors(a.grad_of_bottom.data(), grad_input));
  if (!bottom_) return;
  // The bottom MLP's output is also a direct input of the top MLP.
  on.add_columns(size, dim, {a.grad_joined.data(), width}, {a.grad_of_bottom.data(), dim});
  const std::size_t features = spec_.dense_features;
  if (a.zeros.size() < features) {
    a.zeros.resize(on, features);
    on.fill(features, 0.0F, a.zeros.data());
  }
  on.copy_columns(size, features, {a.zeros.data(), 0}, {grad_input, layout_.width});
}

void hybrid_model::activations::append_addresses(std::vector<const void*>& to) const {
  bottom.append_addresses(to);
  top.append_addresses(to);
  for (const auto* one : {&dense, &joined, &grad_joined, &grad_of_bottom}) to.push_back(one->data());
}

void hybrid_model::loss(kernels::stream& on, std::size_t size, const loss_targets& of_batch, float* outputs,
                        double* loss) const {
  switch (loss_) {
    case loss_kind::cross_entropy:
      return on.softmax_cross_entropy(size, spec_.outputs, outputs, of_batch.classes, outputs, loss);
    case loss_kind::bce_logits:
      return on.bce_with_logits(size, spec_.outputs, outputs, of_batch.values, outputs, loss);
    case loss_kind::mse:
      return on.mean_squared_error(size, spec_.outputs, outputs, of_batch.values, outputs, loss);
  }
}

}  // namespace troupe::model
