// A module with a shortcut around it.

#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nn/module.hpp"

namespace troupe::nn {

struct layer_spec;

/// For job files.
struct residual_options {
  static constexpr const char* kind = "residual";
  std::vector<layer_spec> layers;

  bool operator==(const residual_options&) const = default;
};

/// y = x + module(x). Parameters are named `module.weight` and so on.
class residual final : public module {
 public:
  using options = residual_options;

  template <std::derived_from<module> Module>
  explicit residual(Module of) : module_(std::make_shared<const Module>(std::move(of))) {}
  /// Makes one from a job file's inner layers: their parameters have names without `module.`, and inner layer i has the
  /// random numbers of number i + 1.
  static residual of_layers(std::vector<std::shared_ptr<const module>> inner);

  std::string type() const override { return "residual"; }
  std::vector<parameter> parameters() const override;
  std::vector<parameter> buffers() const override;
  void initialize(std::uint64_t key, const tensor_list<float>& parameters,
                  const tensor_list<float>& buffers) const override;
  troupe::shape output(const tensor_view& input) const override;
  std::size_t saved(const tensor_view& input, const kernels::stream& on) const override;
  std::optional<id_range> ids() const override { return module_->ids(); }
  void forward(const pass& how, const pass_numbers& numbers) const override;
  void backward(const pass& how, const pass_numbers& numbers, const gradients& of) const override;
  std::vector<parameter_range> ranges() const override { return module_->ranges(); }
  void backward_parameters(const pass& how, const pass_numbers& numbers, const view<const float>& grad_output,
                           gradient_places& to) const override;
  bool runs_on_devices() const override { return module_->runs_on_devices(); }
  std::string first_without_device_code() const override { return module_->first_without_device_code(); }
  bool uses_key() const override { return module_->uses_key(); }
  bool synchronizes() const override { return module_->synchronizes(); }
  std::uint64_t multiply_adds(const tensor_view& input) const override { return module_->multiply_adds(input); }

 private:
  residual() = default;

  std::vector<parameter> named(std::vector<parameter> tensors) const;

  std::shared_ptr<const module> module_;
  bool names_module_ = true;
};

}  // namespace troupe::nn
