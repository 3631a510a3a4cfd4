#include "model/hybrid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "base/mapped.hpp"
#include "kernels/device.hpp"
#include "model/random.hpp"
#include "model/tensor_parallel.hpp"
#include "nn/samples.hpp"

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

job job_with(std::span<const std::size_t> hidden) {
  job what;
  what.hidden.assign(hidden.begin(), hidden.end());
  return what;
}

/// Makes layers that `check_network` has accepted.
std::vector<nn::made_layer> checked_layers(const std::vector<nn::layer_spec>& specs, const troupe::shape& in) {
  auto made = nn::make_layers(specs, in);
  TROUPE_ASSERT(made);
  return std::move(*made);
}

nn::sequential network_of(const std::vector<nn::made_layer>& layers) {
  return nn::sequential(mapped(layers, &nn::made_layer::what));
}

}  // namespace

// -- networks -------------------------------------------------------------------------------

std::size_t network::out_features() const { return module->output(nn::batch_of(1, in)).count(); }

std::uint64_t network::multiply_adds() const { return module->multiply_adds(nn::batch_of(1, in)); }

std::size_t network::numbers_per_sample() const {
  const troupe::shape sample = nn::batch_of(1, in);
  return 2 * (sample.count() + out_features()) + module->saved(sample, kernels::host_stream());
}

std::vector<nn::layer_spec> mlp_layers(std::span<const std::size_t> hidden, std::size_t out) {
  std::vector<nn::layer_spec> all;
  for (const std::size_t width : hidden) {
    all.push_back({nn::linear::options{.out_features = width}});
    all.push_back({nn::relu::options{}});
  }
  all.push_back({nn::linear::options{.out_features = out}});
  return all;
}

bool has_bottom(const job& what, const data_spec& spec) {
  return what.interaction != interaction_kind::cat && spec.dense_features > 0 && !spec.tables.empty();
}

std::vector<nn::layer_spec> bottom_layers(const job& what, const data_spec& spec) {
  auto layers = mlp_layers(what.bottom_hidden.value_or(default_bottom_hidden()), spec.tables.front().dim);
  layers.push_back({nn::relu::options{}});
  return layers;
}

std::vector<nn::layer_spec> top_layers(const job& what, const data_spec& spec) {
  std::vector<nn::layer_spec> all = what.layers;
  if (what.interaction != interaction_kind::dcn) return all;
  if (all.empty()) all = mlp_layers(what.hidden, spec.outputs);
  all.insert(all.begin(), {nn::low_rank_cross::options{.rank = what.cross_rank.value_or(default_cross_rank),
                                                       .layers = what.cross_layers.value_or(default_cross_layers)}});
  return all;
}

std::vector<nn::layer_spec> layers_of_top(const job& what, const data_spec& spec) {
  std::vector<nn::layer_spec> all = top_layers(what, spec);
  return all.empty() ? mlp_layers(what.hidden, spec.outputs) : all;
}

troupe::shape top_input(const job& what, const data_spec& spec) {
  const bool is_image = !spec.image.empty() && spec.tables.empty() && what.interaction == interaction_kind::cat;
  const bool is_mlp = top_layers(what, spec).empty();  // an MLP reads images as rows
  return is_image && !is_mlp ? spec.image : troupe::shape(joined_width(what, spec));
}

nn::sequential make_top(const data_spec& spec, const job& what) {
  return network_of(checked_layers(layers_of_top(what, spec), top_input(what, spec)));
}

network make_layers_of_top(const data_spec& spec, const job& what, layer_range part, std::uint32_t slices) {
  const auto layers = checked_layers(layers_of_top(what, spec), top_input(what, spec));
  const nn::sequential mine = slice_of(network_of(layers), slices);
  return {std::make_shared<nn::sequential>(mine.part(part.first, part.end - part.first)), layers[part.first].in};
}

// -- the hybrid model -----------------------------------------------------------------------

hybrid_model::hybrid_model(const data_spec& spec, std::span<const std::size_t> hidden)
    : hybrid_model(spec, job_with(hidden)) {}

hybrid_model::hybrid_model(const data_spec& spec, const job& what)
    : hybrid_model(spec, what, layers_of_top(what, spec).size()) {}

hybrid_model::hybrid_model(const data_spec& spec, const job& what, std::size_t end, std::uint32_t slices)
    : hybrid_model(spec, what, make_layers_of_top(spec, what, {0, end}, slices)) {}

hybrid_model::hybrid_model(const data_spec& spec, const job& what, network top)
    : spec_(spec),
      interaction_(what.interaction),
      layout_(spec),
      top_(std::move(top)),
      top_parameters_(nn::placed(top_.module->parameters())),
      top_buffers_(nn::placed(top_.module->buffers())) {
  if (!has_bottom(what, spec)) return;
  bottom_ = network_of(checked_layers(bottom_layers(what, spec), spec.dense_features));
  bottom_parameters_ = nn::placed(bottom_->parameters());
}

network as_network(hybrid_model of) {
  const std::size_t width = of.in_features();
  return {std::make_shared<const hybrid_model>(std::move(of)), troupe::shape(width)};
}

std::vector<nn::parameter> hybrid_model::parameters() const {
  std::vector<nn::parameter> all;
  nn::append_named(all, "bottom", bottom_parameters_);
  nn::append_named(all, "top", top_parameters_);
  return nn::placed(std::move(all));
}

std::vector<nn::parameter> hybrid_model::buffers() const {
  std::vector<nn::parameter> all;
  nn::append_named(all, "top", top_buffers_);
  return nn::placed(std::move(all));
}

void hybrid_model::initialize(std::uint64_t seed, const nn::tensor_list<float>& parameters,
                              const nn::tensor_list<float>& buffers) const {
  const auto key_of = [seed](std::uint64_t network) {
    return [=](std::size_t layer) { return random_key(seed, random_stream::dense_weights, layer, network); };
  };
  if (bottom_) bottom_->initialize(key_of(bottom_number), parameters.data(), nullptr);
  static_cast<const nn::sequential&>(*top_.module)
      .initialize(key_of(top_number), parameters.data() + bottom_count(), buffers.data());
}

std::vector<nn::parameter_range> hybrid_model::ranges() const {
  std::vector<nn::parameter_range> all;
  if (bottom_) all = bottom_->ranges();
  for (const auto& range : top_.module->ranges()) all.push_back({bottom_count() + range.first, range.count});
  return all;
}

troupe::shape hybrid_model::output(const troupe::tensor_view& input) const {
  nn::check_features(*this, input, layout_.width);
  return {input.shape()[0], top_.out_features()};
}

std::uint64_t hybrid_model::multiply_adds(const troupe::tensor_view& input) const {
  const std::size_t size = input.shape()[0];
  std::uint64_t all = top_.module->multiply_adds(nn::batch_of(size, top_.in));
  if (bottom_) all += bottom_->multiply_adds(troupe::shape(size, spec_.dense_features));
  if (interaction_ == interaction_kind::dot)
    all +=
        std::uint64_t{size} * kernels::pair_count((bottom_ ? 1 : 0) + spec_.tables.size()) * spec_.tables.front().dim;
  return all;
}

// -- passes ---------------------------------------------------------------------------------

/// The positions of the parts' numbers within those of a pass.
struct hybrid_model::places {
  nn::pass_numbers bottom = {};
  nn::pass_numbers top = {};
  float* dense = nullptr;           ///< the bottom MLP's input [size, dense features]
  float* joined = nullptr;          ///< the top network's input [size, its width]
  float* grad_joined = nullptr;     ///< its gradient
  float* grad_of_bottom = nullptr;  ///< gradient of the bottom MLP's output
  float* zeros = nullptr;           ///< a zero for each dense feature
  std::size_t saved = 0;            ///< the number of saved floats
};

/// The top network saves in all the memory behind the other parts; `hybrid_model::saved` computes how much it needs.
hybrid_model::places hybrid_model::places_of(const nn::pass_numbers& numbers, const kernels::stream& on) const {
  const std::size_t size = numbers.input.shape()[0];
  places at;
  const auto next = [&](std::size_t count) {
    float* const place = numbers.saved.empty() ? nullptr : numbers.saved.data() + at.saved;
    at.saved += nn::aligned(on, count);
    return place;
  };
  const auto saved_by = [&](const nn::module& part, const troupe::shape& input) {
    const std::size_t count = nn::saved_count(part, input, on);
    return std::span<float>(next(count), count);
  };
  const troupe::shape in_top = nn::batch_of(size, top_.in);
  const float* const parameters = numbers.parameters.data();
  at.top = {
      .parameters = {bottom_ && parameters != nullptr ? parameters + bottom_count() : parameters, top_parameters_},
      .buffers = {numbers.buffers.data(), top_buffers_},
      .input = {in_top, numbers.input.data()},
      .output = numbers.output};
  if (size == 0) return at;
  if (bottom_) {
    const troupe::shape dense(size, spec_.dense_features);
    const troupe::shape made(size, spec_.tables.front().dim);
    at.dense = next(dense.count());
    at.grad_of_bottom = next(made.count());
    at.zeros = next(spec_.dense_features);
    at.bottom = {.parameters = {parameters, bottom_parameters_},
                 .input = {dense, at.dense},
                 .output = {next(made.count()), made},
                 .saved = saved_by(*bottom_, dense)};
  }
  if (joins()) {
    at.joined = next(in_top.count());
    at.grad_joined = next(in_top.count());
    at.top.input = {in_top, at.joined};
  }
  at.top.saved = numbers.saved.subspan(std::min(at.saved, numbers.saved.size()));
  return at;
}

std::size_t hybrid_model::saved(const troupe::tensor_view& input, const kernels::stream& on) const {
  if (is_top_alone()) return nn::saved_count(*top_.module, input, on);
  const places at = places_of({.input = input}, on);
  return at.saved + nn::aligned(on, nn::saved_count(*top_.module, at.top.input, on));
}

std::optional<nn::id_range> hybrid_model::ids() const {
  return spec_.tables.empty() ? top_.module->ids() : std::nullopt;
}

std::optional<nn::id_range> ids_of(const job& what, const data_spec& spec) {
  if (what.layers.empty() || check_network(what, spec)) return std::nullopt;
  return hybrid_model(spec, what).ids();
}

void hybrid_model::forward(const nn::pass& how, const nn::pass_numbers& numbers) const {
  if (is_top_alone()) return top_.module->forward(how, numbers);
  const places at = places_of(numbers, how.stream);
  if (at.joined != nullptr) interact(how, numbers, at);
  top_.module->forward(how, at.top);
}

void hybrid_model::backward(const nn::pass& how, const nn::pass_numbers& numbers, const nn::gradients& of) const {
  if (is_top_alone()) return top_.module->backward(how, numbers, of);
  const places at = places_of(numbers, how.stream);
  if (!how.is_second_backward) {
    TROUPE_ASSERT(at.joined == nullptr || of.input);
    nn::gradients of_top{.output = of.output, .input = of.input};
    if (of.input) of_top.input = {of.input.data(), at.top.input.shape()};
    if (at.joined != nullptr) of_top.input = {at.grad_joined, at.top.input.shape()};
    top_.module->backward(how, at.top, of_top);
    if (at.joined != nullptr) interact_backward(how, numbers, at, of.input.data());
    if (at.dense != nullptr)
      bottom_->backward(how, at.bottom, {.output = {at.grad_of_bottom, at.bottom.output.shape()}});
  }
  if (!of.parameters) return;
  nn::flat_gradient to(of.parameters.data());
  nn::pass next = how;
  next.is_second_backward = true;
  backward_parameters(next, numbers, of.output, to);
}

namespace {

/// Maps the top network's ranges to those of the whole.
class places_of_top final : public nn::gradient_places {
 public:
  places_of_top(nn::gradient_places& whole, std::size_t first) : whole_(whole), first_(first) {}

  float* at(const nn::parameter_range& which) override { return whole_.at({first_ + which.first, which.count}); }
  void finished(const nn::parameter_range& which) override { whole_.finished({first_ + which.first, which.count}); }

 private:
  nn::gradient_places& whole_;
  std::size_t first_;
};

}  // namespace

void hybrid_model::backward_parameters(const nn::pass& how, const nn::pass_numbers& numbers,
                                       const troupe::view<const float>& grad_output, nn::gradient_places& to) const {
  if (is_top_alone()) return top_.module->backward_parameters(how, numbers, grad_output, to);
  TROUPE_ASSERT(how.is_second_backward);
  const places at = places_of(numbers, how.stream);
  places_of_top of_top(to, bottom_count());
  top_.module->backward_parameters(how, at.top, grad_output, of_top);
  if (bottom_) bottom_->backward_parameters(how, at.bottom, {at.grad_of_bottom, at.bottom.output.shape()}, to);
}

/// The interacting vectors as matrices [size, width]: the bottom MLP's output if there is one, then the tables'
/// columns.
template <class T>
std::vector<kernels::row_matrix<T>> hybrid_model::vectors(T* of_bottom, T* input) const {
  std::vector<kernels::row_matrix<T>> all;
  if (bottom_) all.push_back({of_bottom, spec_.tables.front().dim});
  for (const std::size_t column : layout_.columns) all.push_back({input + column, layout_.width});
  return all;
}

/// Fills `joined`: the bottom MLP's output, then the dots or the tables' pooled rows.
void hybrid_model::interact(const nn::pass& how, const nn::pass_numbers& numbers, const places& at) const {
  kernels::stream& on = how.stream;
  const std::size_t size = numbers.input.shape()[0];
  const std::size_t width = top_.in_features();
  const std::size_t dim = spec_.tables.front().dim;
  const std::size_t features = spec_.dense_features;
  const float* const input = numbers.input.as<float>().data();
  const float* const of_bottom = at.bottom.output.data();
  if (bottom_) {
    on.copy_columns(size, features, {input, layout_.width}, {at.dense, features});
    bottom_->forward(how, at.bottom);
    on.copy_columns(size, dim, {of_bottom, dim}, {at.joined, width});
  }
  const kernels::row_matrix<float> rest{at.joined + (bottom_ ? dim : 0), width};
  if (interaction_ == interaction_kind::dot)
    on.pairwise_dots(size, dim, vectors(of_bottom, input), rest);
  else
    on.copy_columns(size, width - dim, {input + features, layout_.width}, rest);
}

/// Computes from `grad_joined` the gradients of the bottom MLP's output and of the tables' rows.
void hybrid_model::interact_backward(const nn::pass& how, const nn::pass_numbers& numbers, const places& at,
                                     float* grad_input) const {
  kernels::stream& on = how.stream;
  const std::size_t size = numbers.input.shape()[0];
  const std::size_t width = top_.in_features();
  const std::size_t dim = spec_.tables.front().dim;
  const std::size_t features = spec_.dense_features;
  const kernels::row_matrix<const float> direct{at.grad_joined, width};
  if (interaction_ == interaction_kind::dot) {
    const float* const of_bottom = at.bottom.output.data();
    on.pairwise_dots_backward(size, dim, vectors(of_bottom, numbers.input.as<float>().data()),
                              {at.grad_joined + (bottom_ ? dim : 0), width}, vectors(at.grad_of_bottom, grad_input));
    if (!bottom_) return;
    // The bottom MLP's output is also a direct input of the top network.
    on.add_columns(size, dim, direct, {at.grad_of_bottom, dim});
  } else {
    on.copy_columns(size, dim, direct, {at.grad_of_bottom, dim});
    on.copy_columns(size, width - dim, {at.grad_joined + dim, width}, {grad_input + features, layout_.width});
  }
  on.fill(features, 0.0F, at.zeros);
  on.copy_columns(size, features, {at.zeros, 0}, {grad_input, layout_.width});
}

}  // namespace troupe::model
