// Modules in sequence.

#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/module.hpp"

namespace troupe::nn {

/// Applies modules in sequence. Parameters have PyTorch's names, by the modules' numbers: `0.weight`, `2.bias`. The
/// gradients of later modules are sent while those of earlier ones are computed. A ReLU after a linear layer is fused
/// with its product, unless it is the last module.
class sequential final : public module {
 public:
  template <std::derived_from<module>... Modules>
  explicit sequential(Modules... modules) {
    (add(std::move(modules)), ...);
  }
  /// `first`: the number of the first module, for names. A module's random numbers are those of its number plus
  /// `shift`.
  explicit sequential(std::vector<std::shared_ptr<const module>> modules, std::size_t first = 0, std::size_t shift = 0)
      : modules_(std::move(modules)), first_(first), shift_(shift) {}

  /// Appends a module.
  template <std::derived_from<module> Module>
  sequential& add(Module next) {
    modules_.push_back(std::make_shared<const Module>(std::move(next)));
    plans_ = make_plans();
    return *this;
  }
  /// Appends the modules of another one, which get the next numbers.
  sequential& extend(const sequential& more);

  /// The number of modules.
  std::size_t size() const { return modules_.size(); }
  const module& at(std::size_t i) const { return *modules_[i]; }
  const std::vector<std::shared_ptr<const module>>& modules() const { return modules_; }
  /// Returns a sequence with the same numbering and other modules. Requires: as many.
  sequential with(std::vector<std::shared_ptr<const module>> modules) const {
    return sequential(std::move(modules), first_, shift_);
  }
  /// Returns the modules [first, first + count), for a stage of a pipeline: with their numbers, and so with the same
  /// names, initial parameters and random numbers. Throws `error` if there are too few.
  sequential part(std::size_t first, std::size_t count) const;

  std::string type() const override { return "sequential"; }
  std::vector<parameter> parameters() const override;
  std::vector<parameter> buffers() const override;
  void initialize(std::uint64_t key, const tensor_list<float>& parameters,
                  const tensor_list<float>& buffers) const override;
  /// Initializes likewise, with one key per module: `key` returns it by the module's number.
  void initialize(const std::function<std::uint64_t(std::size_t number)>& key, float* parameters, float* buffers) const;
  troupe::shape output(const tensor_view& input) const override;
  std::size_t saved(const tensor_view& input, const kernels::stream& on) const override;
  /// The ids that the first computing module accepts.
  std::optional<id_range> ids() const override;
  void forward(const pass& how, const pass_numbers& numbers) const override;
  void backward(const pass& how, const pass_numbers& numbers, const gradients& of) const override;
  std::vector<parameter_range> ranges() const override;
  void backward_parameters(const pass& how, const pass_numbers& numbers, const view<const float>& grad_output,
                           gradient_places& to) const override;
  bool runs_on_devices() const override { return first_without_device_code().empty(); }
  std::string first_without_device_code() const override;
  bool uses_key() const override;
  bool synchronizes() const override;
  std::uint64_t multiply_adds(const tensor_view& input) const override;

 private:
  struct step;
  struct plan;
  class plan_cache;

  static std::shared_ptr<plan_cache> make_plans();
  std::shared_ptr<const plan> plan_of(const tensor_view& input, const kernels::stream& on) const;
  plan made_plan(const tensor_view& input, const kernels::stream& on) const;
  pass pass_of(const step& of, const pass& whole) const;
  void pass_without_samples(const pass& how, const plan& all, bool is_backward) const;
  void backward_inputs(const pass& how, const pass_numbers& numbers, const plan& all, const gradients& of) const;
  void check_any() const;

  std::vector<std::shared_ptr<const module>> modules_;
  std::size_t first_ = 0;  ///< the number of the first module
  std::size_t shift_ = 0;  ///< from a module's number to that of its random numbers
  std::shared_ptr<plan_cache> plans_ = make_plans();
};

}  // namespace troupe::nn
