#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/layer_spec.hpp"
#include "troupe/error.hpp"
#include "troupe/layers.hpp"

namespace troupe::nn {

namespace {

constexpr std::size_t width_max = (std::size_t{1} << 31) - 1;

/// The words about a layer, without its number in a network.
std::string without_number(const std::string& words, const std::string& kind) {
  const std::string number = fmt::format("layer 0 ({})", kind);
  return words.starts_with(number) ? kind + words.substr(number.size()) : words;
}

template <class T>
T checked(result<T> made, const model::layer_spec& spec) {
  if (made) return std::move(*made);
  throw error(error_kind::input, without_number(made.error().message, model::to_string(spec.kind)));
}

/// The layer as parsing knows it, with its limits. JSON has no NaN and no Inf.
model::layer_spec checked(const model::layer_spec& spec) {
  for (const auto& [name, value] :
       {std::pair{"eps", spec.eps}, std::pair{"momentum", spec.momentum}, std::pair{"rate", spec.rate}})
    if (!std::isfinite(value))
      throw error(error_kind::input,
                  fmt::format("{}: {} {}: must be a finite number", model::to_string(spec.kind), name, value));
  return checked(model::parse_layers(model::to_json({spec})), spec).front();
}

std::vector<parameter> tensors_of(const std::vector<model::named_parameter>& named) {
  std::vector<parameter> all;
  all.reserve(named.size());
  for (const model::named_parameter& one : named) all.push_back({one.name, troupe::shape::of(one.shape)});
  return all;
}

/// The shape of a sample of the batch.
model::sample_shape sample_of(const tensor& input, const model::layer_spec& spec) {
  const troupe::shape& batch = input.shape();
  const bool has_samples = batch.dimensions() >= 2 && batch.dimensions() <= 4 && batch.count() > 0;
  if (input.type() != dtype::f32 || !has_samples)
    throw error(error_kind::input,
                fmt::format("{}: takes [n, features], [n, steps, features] or [n, channels, height, width] of float32, "
                            "each at least 1, not {} of {}",
                            model::to_string(spec.kind), to_string(batch), to_string(input.type())));
  model::sample_shape sample;
  for (std::size_t i = 1; i < batch.dimensions(); ++i) sample.push_back(batch[i]);
  return sample;
}

model::layer::numbers numbers_of(const pass_numbers& from) {
  return {from.parameters, from.buffers,   from.input.as<float>().data(), from.output, from.saved,
          from.state,      from.next_state};
}

model::layer::pass pass_of(const pass& how, const pass_numbers& numbers) {
  return {.on = how.on, .size = numbers.input.shape()[0], .training = how.training, .key = how.key, .ranks = how.ranks};
}

model::layer_spec pool_spec(model::layer_kind kind, std::size_t kernel, std::size_t stride) {
  return {.kind = kind, .kernel = kernel, .stride = stride == 0 ? kernel : stride};
}

}  // namespace

described_layer::described_layer(const model::layer_spec& spec)
    : spec_(std::make_shared<const model::layer_spec>(checked(spec))) {}

described_layer::described_layer(const model::layer_spec& spec, const char* width, const troupe::shape& sample)
    : described_layer(spec) {
  model::sample_shape lengths;
  for (std::size_t i = 0; i < sample.dimensions(); ++i) lengths.push_back(sample[i]);
  for (const std::size_t length : lengths)
    if (length == 0 || length > width_max)
      throw error(error_kind::input,
                  fmt::format("{}: {} {}: must be a whole number between 1 and {}", type(), width, length, width_max));
  sample_ = checked(model::make_layer(*spec_, 0, lengths), *spec_);
}

std::string described_layer::type() const { return model::to_string(spec_->kind); }

std::vector<parameter> described_layer::parameters() const {
  return sample_ ? tensors_of(sample_->parameters()) : std::vector<parameter>();
}

std::vector<parameter> described_layer::buffers() const {
  return sample_ ? tensors_of(sample_->buffers()) : std::vector<parameter>();
}

void described_layer::initialize(std::uint64_t key, float* parameters, float* buffers) const {
  if (sample_) sample_->initialize(key, parameters, buffers);
}

/// Throws `error` also if the layer has other parameters for such an input than it was made for.
std::unique_ptr<const model::layer> described_layer::made_for(const tensor& input) const {
  auto made = checked(model::make_layer(*spec_, 0, sample_of(input, *spec_)), *spec_);
  if (sample_ && made->parameters() != sample_->parameters())
    throw error(error_kind::input, fmt::format("{}: is made for samples such as {}, not {}", type(),
                                               model::to_string(sample_->in()), model::to_string(made->in())));
  return made;
}

troupe::shape described_layer::output(const tensor& input) const {
  const auto made = made_for(input);
  model::sample_shape lengths = made->out();
  lengths.insert(lengths.begin(), input.shape()[0]);
  return troupe::shape::of(lengths);
}

std::size_t described_layer::saved(const tensor& input) const { return made_for(input)->saved(input.shape()[0]); }

void described_layer::forward(const pass& how, const pass_numbers& numbers) const {
  made_for(numbers.input)->forward(pass_of(how, numbers), numbers_of(numbers));
}

/// The layer's way back for the parameters relies on that for the input.
void described_layer::backward(const pass& how, const pass_numbers& numbers, const float* grad_output,
                               float* grad_input, float* grad_parameters) const {
  const auto made = made_for(numbers.input);
  const model::layer::pass there = pass_of(how, numbers);
  if (grad_input != nullptr || !how.goes_on) made->backward_input(there, numbers_of(numbers), grad_output, grad_input);
  if (grad_parameters != nullptr && sample_)
    made->backward_parameters(there, numbers_of(numbers), grad_output, grad_parameters);
}

bool described_layer::uses_key() const { return spec_->kind == model::layer_kind::dropout && spec_->rate > 0; }

bool described_layer::synchronizes() const { return spec_->synchronized; }

gelu::gelu() : described_layer({.kind = model::layer_kind::gelu}) {}

dropout::dropout(double rate) : described_layer({.kind = model::layer_kind::dropout, .rate = rate}) {}

flatten::flatten() : described_layer({.kind = model::layer_kind::flatten}) {}

conv2d::conv2d(const options& chosen)
    : described_layer({.kind = model::layer_kind::conv2d,
                       .out_channels = chosen.out_channels,
                       .kernel = chosen.kernel,
                       .stride = chosen.stride,
                       .padding = chosen.padding,
                       .bias = chosen.bias},
                      "in_channels", {chosen.in_channels, chosen.kernel, chosen.kernel}) {}

max_pool2d::max_pool2d(std::size_t kernel, std::size_t stride)
    : described_layer(pool_spec(model::layer_kind::max_pool2d, kernel, stride)) {}

avg_pool2d::avg_pool2d(std::size_t kernel, std::size_t stride)
    : described_layer(pool_spec(model::layer_kind::avg_pool2d, kernel, stride)) {}

global_avg_pool2d::global_avg_pool2d() : described_layer({.kind = model::layer_kind::global_avg_pool2d}) {}

batch_norm::batch_norm(const options& chosen)
    : described_layer({.kind = model::layer_kind::batch_norm,
                       .eps = chosen.eps,
                       .momentum = chosen.momentum,
                       .scale = chosen.scale,
                       .synchronized = chosen.synchronized},
                      "channels", troupe::shape(chosen.channels)) {}

layer_norm::layer_norm(std::size_t features, double eps)
    : described_layer({.kind = model::layer_kind::layer_norm, .eps = eps}, "features", troupe::shape(features)) {}

low_rank_cross::low_rank_cross(std::size_t features, std::size_t rank, std::size_t layers)
    : described_layer({.kind = model::layer_kind::low_rank_cross, .rank = rank, .layers = layers}, "features",
                      troupe::shape(features)) {}

lstm::lstm(const options& chosen)
    : described_layer(
          {.kind = model::layer_kind::lstm, .hidden = chosen.hidden, .steps = chosen.steps, .last = chosen.last},
          "features", {std::max<std::size_t>(chosen.steps, 1), chosen.features}),
      hidden_(chosen.hidden) {}

troupe::shape lstm::state(const tensor& input) const { return {2, output(input)[0], hidden_}; }

}  // namespace troupe::nn
