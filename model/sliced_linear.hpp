// A slice's part of a linear layer cut by tensor parallelism (tensor_parallel.hpp).

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/tensor_parallel.hpp"
#include "nn/linear.hpp"

namespace troupe::model {

/// If cut by `outputs`, the gradient of the input is a sum over all slices; if cut by `inputs`, the output is, plus the
/// bias.
class sliced_linear final : public nn::module {
 public:
  /// `options`: the slice's. Requires: `cut` is not none.
  sliced_linear(const nn::linear::options& options, layer_cut cut) : whole_(options), cut_(cut) {}

  std::string type() const override { return whole_.type(); }
  std::vector<nn::parameter> parameters() const override { return whole_.parameters(); }
  void initialize(std::uint64_t key, const nn::tensor_list<float>& parameters,
                  const nn::tensor_list<float>& buffers) const override {
    whole_.initialize(key, parameters, buffers);
  }
  troupe::shape output(const troupe::tensor_view& input) const override { return whole_.output(input); }
  void forward(const nn::pass& how, const nn::pass_numbers& numbers) const override;
  void backward(const nn::pass& how, const nn::pass_numbers& numbers, const nn::gradients& of) const override;
  bool runs_on_devices() const override { return true; }
  std::uint64_t multiply_adds(const troupe::tensor_view& input) const override { return whole_.multiply_adds(input); }

 private:
  nn::linear whole_;
  layer_cut cut_;
};

}  // namespace troupe::model
