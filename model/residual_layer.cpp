#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/layers.hpp"
#include "model/random.hpp"

namespace troupe::model {

namespace {

/// y = x + inner(x). Saves of each inner layer what it saves itself and, but for the last one, its output and the
/// output's gradient.
class residual_layer final : public layer {
 public:
  residual_layer(const sample_shape& in, std::vector<layer_ptr> inner) : layer(in, in) {
    for (layer_ptr& one : inner) {
      const std::size_t parameters = count_of(one->parameters());
      const std::size_t buffers = count_of(one->buffers());
      inner_.push_back({std::move(one), parameters, buffers});
    }
  }

  std::string kind() const override { return to_string(layer_kind::residual); }

  std::vector<named_parameter> parameters() const override { return numbered(&layer::parameters); }
  std::vector<named_parameter> buffers() const override { return numbered(&layer::buffers); }

  void initialize(std::uint64_t key, float* parameters, float* buffers) const override {
    for (std::size_t j = 0; j < inner_.size(); ++j) {
      inner_[j].what->initialize(inner_key(key, j), parameters, buffers);
      parameters += inner_[j].parameters;
      buffers += inner_[j].buffers;
    }
  }

  std::size_t saved(std::size_t size) const override {
    std::size_t count = 0;
    for (const inner_layer& one : inner_) count += one.what->saved(size);
    for (std::size_t j = 0; j + 1 < inner_.size(); ++j) count += 2 * size * count_of(inner_[j].what->out());
    return count;
  }

  std::uint64_t multiply_adds() const override {
    std::uint64_t sum = 0;
    for (const inner_layer& one : inner_) sum += one.what->multiply_adds();
    return sum;
  }

  bool uses_key() const override {
    return std::ranges::any_of(inner_, [](const inner_layer& one) { return one.what->uses_key(); });
  }

  bool synchronizes() const override {
    return std::ranges::any_of(inner_, [](const inner_layer& one) { return one.what->synchronizes(); });
  }
  void stand_by_forward(rank_means& ranks) const override {
    for (const inner_layer& one : inner_) one.what->stand_by_forward(ranks);
  }
  void stand_by_backward(rank_means& ranks) const override {
    for (std::size_t j = inner_.size(); j-- > 0;) inner_[j].what->stand_by_backward(ranks);
  }

  void forward(const pass& how, const numbers& of) const override {
    const auto places = places_of(how, of);
    for (std::size_t j = 0; j < inner_.size(); ++j) inner_[j].what->forward(inner_pass(how, j), places[j].of);
    add(how, of.input, of.output);
  }

  void backward_input(const pass& how, const numbers& of, const float* grad_output, float* grad_input) const override {
    const auto places = places_of(how, of);
    const float* grad = grad_output;
    for (std::size_t j = inner_.size(); j-- > 0;) {
      float* const below = j > 0 ? places[j - 1].grad : grad_input;
      inner_[j].what->backward_input(inner_pass(how, j), places[j].of, grad, below);
      grad = below;
    }
    if (grad_input != nullptr) add(how, grad_output, grad_input);
  }

  void backward_parameters(const pass& how, const numbers& of, const float* grad_output,
                           float* grad_parameters) const override {
    const auto places = places_of(how, of);
    for (std::size_t j = 0; j < inner_.size(); ++j) {
      const float* const grad = j + 1 < inner_.size() ? places[j].grad : grad_output;
      if (inner_[j].parameters > 0)
        inner_[j].what->backward_parameters(inner_pass(how, j), places[j].of, grad, grad_parameters);
      grad_parameters += inner_[j].parameters;
    }
  }

 private:
  // With the counts of its parameters and buffers.
  struct inner_layer {
    layer_ptr what;
    std::size_t parameters;
    std::size_t buffers;
  };

  // Where an inner layer's numbers are; `grad`, of its output, is null for the last one.
  struct place {
    numbers of;
    float* grad = nullptr;
  };

  static std::uint64_t inner_key(std::uint64_t key, std::size_t j) { return random_bits(key, 1 + j); }

  static pass inner_pass(const pass& how, std::size_t j) {
    return {how.on, how.size, how.training, inner_key(how.key, j), how.first_sample, how.ranks};
  }

  std::vector<place> places_of(const pass& how, const numbers& of) const {
    std::vector<place> places;
    numbers next = of;
    for (const auto& [what, parameters, buffers] : inner_) {
      place& here = places.emplace_back();
      here.of = next;
      next.saved += what->saved(how.size);
      if (places.size() < inner_.size()) {
        const std::size_t count = how.size * count_of(what->out());
        here.of.output = std::exchange(next.saved, next.saved + count);
        here.grad = std::exchange(next.saved, next.saved + count);
      }
      next.input = here.of.output;
      next.parameters += parameters;
      next.buffers += buffers;
    }
    return places;
  }

  std::vector<named_parameter> numbered(std::vector<named_parameter> (layer::*tensors)() const) const {
    std::vector<named_parameter> all;
    std::size_t first = 0;
    for (std::size_t j = 0; j < inner_.size(); ++j) {
      const auto of_layer = ((*inner_[j].what).*tensors)();
      for (const named_parameter& one : of_layer)
        all.push_back({fmt::format("{}.{}", j, one.name), one.shape, first + one.first});
      first += count_of(of_layer);
    }
    return all;
  }

  void add(const pass& how, const float* from, float* to) const {
    const std::size_t width = count_of(in());
    how.on.add_columns(how.size, width, {from, width}, {to, width});
  }

  std::vector<inner_layer> inner_;
};

}  // namespace

layer_ptr make_residual(const sample_shape& in, std::vector<layer_ptr> inner) {
  return std::make_unique<residual_layer>(in, std::move(inner));
}

}  // namespace troupe::model
