// A network of layers, one after the other, as `layer_spec` describes them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "kernels/device_array.hpp"
#include "model/layer.hpp"
#include "model/layer_spec.hpp"
#include "model/network.hpp"
#include "model/tensor_parallel.hpp"

namespace troupe::model {

/// Layers [first, end) of a list.
struct layer_range {
  std::size_t first = 0;
  std::size_t end = 0;
};

/// A layer, for people.
struct layer_row {
  std::size_t number = 0;
  std::string kind;
  std::string options;  ///< `options_text`
  sample_shape in;
  sample_shape out;
  std::size_t parameters = 0;
  std::uint64_t multiply_adds = 0;  ///< of a sample's forward pass, in products
};

/// Tensors have the names of a torch.nn.Sequential of the same layers: 0.weight, 0.bias and so on. The layers draw
/// their random numbers by their own numbers in the list.
class layer_network final : public network {
 public:
  class activations final : public network::activations {
   public:
    float* outputs() const override { return outputs_.back().data(); }
    void append_addresses(std::vector<const void*>& to) const override;

   private:
    friend layer_network;

    // Of each step.
    std::vector<kernels::device_array<float>> outputs_;
    std::vector<kernels::device_array<float>> grads_;  // of the outputs; the last one is the caller's
    std::vector<kernels::device_array<float>> saved_;
    // `backward_inputs` keeps these for `backward_parameters`.
    pass_mode mode_;
    tensors numbers_;
  };

  /// Makes the network for samples of shape `in`. Refuses what `make_layer` refuses, and an empty list. `number`
  /// distinguishes the initial weights of a model's networks.
  static result<layer_network> make(const std::vector<layer_spec>& layers, const sample_shape& in,
                                    std::uint64_t number = 0);
  /// Makes a part of that network, which computes what the whole one computes there, with the same names. Of several
  /// slices it is one's: its passes sum with those of the others. Requires: `part` is not empty, and within the list;
  /// `check_slices` accepts the list.
  static result<layer_network> make_part(const std::vector<layer_spec>& layers, const sample_shape& in,
                                         layer_range part, std::uint64_t number = 0, std::uint32_t slices = 1);

  /// Returns a row for each layer of the list, or part.
  const std::vector<layer_row>& rows() const { return rows_; }

  std::size_t in_features() const override { return count_of(rows_.front().in); }
  std::size_t out_features() const override { return count_of(rows_.back().out); }

  std::vector<named_parameter> parameters() const override;
  std::vector<named_parameter> buffers() const override;
  std::vector<parameter_range> ranges() const override;
  std::size_t parameter_count() const override { return parameter_count_; }
  std::size_t numbers_per_sample() const override;
  std::uint64_t multiply_adds() const override;

  std::vector<float> initial_parameters(std::uint64_t seed) const override;
  std::vector<float> initial_buffers() const override;
  bool uses_key() const override;
  bool synchronizes() const override;
  void stand_by(rank_means& ranks) const override;

  std::unique_ptr<network::activations> make_activations() const override { return std::make_unique<activations>(); }

  float* forward(kernels::stream& on, const pass_mode& mode, std::size_t size, const tensors& numbers,
                 const float* input, network::activations& a) const override;
  void backward_inputs(kernels::stream& on, const pass_mode& mode, std::size_t size, const tensors& numbers,
                       const float* input, network::activations& a, const float* grad_outputs,
                       float* grad_input) const override;
  void backward_parameters(kernels::stream& on, std::size_t size, const float* input, const network::activations& a,
                           const float* grad_outputs, const std::function<float*(parameter_range)>& grad_at,
                           const std::function<void(parameter_range)>& finished) const override;

 private:
  // What is computed at once: a layer, or a linear one with the ReLU after it. Layers that change nothing have none.
  struct step {
    std::unique_ptr<const layer> what;
    std::size_t number = 0;  // of the layer in the list
    bool has_relu = false;
    parameter_range parameters;
    parameter_range buffers;

    std::size_t outputs() const { return count_of(what->out()); }
  };

  explicit layer_network(std::uint64_t number) : number_(number) {}

  void add_step(std::unique_ptr<const layer> what, std::size_t number, bool has_relu);
  bool is_trained_below(std::size_t i) const;
  layer::pass pass_of(std::size_t i, kernels::stream& on, const pass_mode& mode, std::size_t size) const;
  layer::numbers numbers_of(std::size_t i, const tensors& all, const float* input, const activations& a) const;
  std::vector<named_parameter> numbered(std::vector<named_parameter> (layer::*of_layer)() const,
                                        parameter_range step::*range) const;

  std::uint64_t number_;
  std::vector<layer_row> rows_;
  std::vector<step> steps_;
  std::size_t parameter_count_ = 0;
  std::size_t buffer_count_ = 0;
};

}  // namespace troupe::model
