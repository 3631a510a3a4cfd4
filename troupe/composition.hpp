// Modules made of modules.

#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "troupe/module.hpp"

namespace troupe::nn {

/// One module after the other. Their parameters are named as PyTorch names them, by the modules' numbers: `0.weight`,
/// `2.bias`. The gradients of later modules leave while those of earlier ones are computed.
class sequential final : public module {
 public:
  template <std::derived_from<module>... Modules>
  explicit sequential(Modules... modules) {
    (add(std::move(modules)), ...);
  }

  /// Appends a module.
  template <std::derived_from<module> Module>
  sequential& add(Module next) {
    modules_.push_back(std::make_shared<const Module>(std::move(next)));
    return *this;
  }
  /// Appends the modules of another one, which get the next numbers here.
  sequential& append(const sequential& more);

  /// How many modules it has.
  std::size_t size() const { return modules_.size(); }
  /// The modules [first, first + count), as a stage of a pipeline has them: with the numbers that they have here, and
  /// so with the same names, initial parameters and random numbers. Throws `error` if there are not so many.
  sequential part(std::size_t first, std::size_t count) const;

  std::string type() const override { return "sequential"; }
  std::vector<parameter> parameters() const override;
  std::vector<parameter> buffers() const override;
  void initialize(std::uint64_t key, float* parameters, float* buffers) const override;
  troupe::shape output(const tensor& input) const override;
  std::size_t saved(const tensor& input) const override;
  void forward(const pass& how, const pass_numbers& numbers) const override;
  void backward(const pass& how, const pass_numbers& numbers, const float* grad_output, float* grad_input,
                float* grad_parameters) const override;
  std::vector<stretch> stretches() const override;
  void backward_parameters(const pass& how, const pass_numbers& numbers, const float* grad_output,
                           gradient_places& to) const override;
  bool runs_on_devices() const override { return first_without_device_code().empty(); }
  std::string first_without_device_code() const override;
  bool uses_key() const override;
  bool synchronizes() const override;

 private:
  struct stage;

  std::vector<stage> stages(const tensor& input) const;
  std::vector<stage> stages(const pass_numbers& numbers) const;
  void backward_inputs(const pass& how, const std::vector<stage>& all, const float* grad_output,
                       float* grad_input) const;
  void check_any() const;

  std::vector<std::shared_ptr<const module>> modules_;
  std::size_t first_ = 0;  ///< the number of the first one
};

/// y = x + module(x). Parameters are named `module.weight` and so on.
class residual final : public module {
 public:
  template <std::derived_from<module> Module>
  explicit residual(Module of) : module_(std::make_shared<const Module>(std::move(of))) {}

  std::string type() const override { return "residual"; }
  std::vector<parameter> parameters() const override;
  std::vector<parameter> buffers() const override;
  void initialize(std::uint64_t key, float* parameters, float* buffers) const override {
    module_->initialize(key, parameters, buffers);
  }
  troupe::shape output(const tensor& input) const override;
  std::size_t saved(const tensor& input) const override;
  void forward(const pass& how, const pass_numbers& numbers) const override;
  void backward(const pass& how, const pass_numbers& numbers, const float* grad_output, float* grad_input,
                float* grad_parameters) const override;
  std::vector<stretch> stretches() const override { return module_->stretches(); }
  void backward_parameters(const pass& how, const pass_numbers& numbers, const float* grad_output,
                           gradient_places& to) const override;
  bool runs_on_devices() const override { return module_->runs_on_devices(); }
  std::string first_without_device_code() const override { return module_->first_without_device_code(); }
  bool uses_key() const override { return module_->uses_key(); }
  bool synchronizes() const override { return module_->synchronizes(); }

 private:
  std::shared_ptr<const module> module_;
};

}  // namespace troupe::nn
