// The hybrid model: embedding tables and dense features, a network, and a loss.
//
// The input is the dense features, then the tables' pooled rows in order, which come from parameter servers. This class
// is the dense part, which every trainer holds. Its last part is the top network: an MLP, or layers as the job
// describes them. The interaction between input and top network:
//
//   cat  none.
//   dot  as in DLRM (Naumov et al., 2019): a bottom MLP, ReLU after each of its layers, makes a vector of the tables'
//        width from the dense features. The top network's input: that vector, then the dots of all pairs of the vectors
//        (the bottom MLP's, then the tables'), in the order of kernels/interaction.hpp. Without dense features it is
//        only the dots, without a bottom MLP.
//   dcn  as in DLRM-DCNv2 (Wang et al., 2021): the bottom MLP as with dot. The top network's input: that vector, then
//        the tables' pooled rows; its first layer are low-rank cross layers. Without dense features, or without tables,
//        there is no bottom MLP.
//
// The parameters are one flat buffer: the bottom MLP's, then the top network's.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/interaction.hpp"
#include "model/data.hpp"
#include "model/job.hpp"
#include "model/layer_network.hpp"
#include "model/layer_spec.hpp"
#include "model/mlp.hpp"
#include "model/network.hpp"

namespace troupe::model {

class hybrid_model final : public network {
 public:
  /// A model with interaction `cat`.
  hybrid_model(const data_spec& spec, std::span<const std::size_t> hidden);

  /// The model of a job. Requires: `check_network` accepts the job.
  hybrid_model(const data_spec& spec, const job& what);
  /// The model with the top network's layers before `end` only (`layers_of_top`): the first stage of a pipeline.
  /// Of several slices (`tensor_parallel.hpp`) it is one's.
  hybrid_model(const data_spec& spec, const job& what, std::size_t end, std::uint32_t slices = 1);

  const data_spec& spec() const { return spec_; }

  std::size_t in_features() const override { return layout_.width; }
  std::size_t out_features() const override { return top_->out_features(); }
  std::size_t parameter_count() const override;
  /// With the input and its gradient.
  std::size_t numbers_per_sample() const override;
  std::uint64_t multiply_adds() const override;

  std::vector<float> initial_parameters(std::uint64_t seed) const override;
  std::vector<float> initial_buffers() const override { return top_->initial_buffers(); }
  bool uses_key() const override { return top_->uses_key(); }
  bool synchronizes() const override { return top_->synchronizes(); }
  void stand_by(rank_means& ranks) const override { top_->stand_by(ranks); }

  std::vector<parameter_range> ranges() const override;

  /// bottom.0.weight, bottom.0.bias, ..., top.0.weight, ...
  std::vector<named_parameter> parameters() const override;
  /// top.1.running_mean, ...
  std::vector<named_parameter> buffers() const override;

  /// Returns the first column of table `table`'s pooled row in the input.
  std::size_t column_of(std::size_t table) const { return layout_.columns[table]; }

  struct activations final : network::activations {
    mlp::activations bottom;
    std::unique_ptr<network::activations> top;
    kernels::device_array<float> dense;           ///< the bottom MLP's input [size, dense features]
    kernels::device_array<float> joined;          ///< the top network's input [size, its width], where it is not ours
    kernels::device_array<float> grad_joined;     ///< its gradient
    kernels::device_array<float> grad_of_bottom;  ///< gradient of the bottom MLP's output
    kernels::device_array<float> zeros;           ///< a zero for each dense feature

    float* outputs() const override { return top->outputs(); }
    void append_addresses(std::vector<const void*>& to) const override;
  };

  std::unique_ptr<network::activations> make_activations() const override;

  float* forward(kernels::stream& on, const pass_mode& mode, std::size_t size, const tensors& numbers,
                 const float* input, network::activations& kept) const override;

  /// `grad_input` may be null if there are no tables. The dense features' columns get their gradients where they are
  /// the top network's input, but zeros where a bottom MLP is between: they are not needed.
  void backward_inputs(kernels::stream& on, const pass_mode& mode, std::size_t size, const tensors& numbers,
                       const float* input, network::activations& kept, const float* grad_outputs,
                       float* grad_input) const override;

  /// Goes from the top network's last layer to the bottom MLP's first one.
  void backward_parameters(kernels::stream& on, std::size_t size, const float* input, const network::activations& kept,
                           const float* grad_outputs, const std::function<float*(parameter_range)>& grad_at,
                           const std::function<void(parameter_range)>& finished) const override;

 private:
  hybrid_model(const data_spec& spec, const job& what, std::unique_ptr<const network> top);

  std::size_t bottom_count() const { return bottom_ ? bottom_->parameter_count() : 0; }
  /// Whether the top network's input is made of the model's.
  bool joins() const { return bottom_ || interaction_ == interaction_kind::dot; }
  tensors of_top(const tensors& all) const { return {all.parameters + bottom_count(), all.buffers}; }
  template <class T>
  std::vector<kernels::row_matrix<T>> vectors(T* of_bottom, T* input) const;
  void interact(kernels::stream& on, const pass_mode& mode, std::size_t size, const float* parameters,
                const float* input, activations& a) const;
  void interact_backward(kernels::stream& on, std::size_t size, const float* input, activations& a,
                         float* grad_input) const;

  data_spec spec_;
  interaction_kind interaction_;
  input_layout layout_;
  std::optional<mlp> bottom_;
  std::unique_ptr<const network> top_;
};

/// Returns the mean loss over samples with so many outputs (targets: classes for cross-entropy, else values).
loss_function loss_of(loss_kind kind, std::size_t outputs);

/// Returns an MLP of these widths as layers.
std::vector<layer_spec> mlp_layers(std::span<const std::size_t> hidden, std::size_t out);
/// Whether a bottom MLP is between the dense features and the top network.
bool has_bottom(const job& what, const data_spec& spec);
/// Returns the layers of a job's top network for samples of `spec`; none if it is an MLP of the job's hidden widths.
std::vector<layer_spec> top_layers(const job& what, const data_spec& spec);
/// Returns the same; of an MLP its layers.
std::vector<layer_spec> layers_of_top(const job& what, const data_spec& spec);
/// Makes layers of the top network, a stage of a pipeline after the first. Its bits are those of the whole network. Of
/// several slices it is one's.
std::unique_ptr<const network> make_layers_of_top(const data_spec& spec, const job& what, layer_range part,
                                                  std::uint32_t slices = 1);
/// Returns the shape of its input: an image where the data are images, else a vector.
sample_shape top_input(const job& what, const data_spec& spec);

/// Returns the shapes of a job's data as the job alone tells them, without its file: a bag of a file counts as one
/// index. Null for a reference run. Requires: `parse_job` accepted the job.
std::optional<data_spec> spec_of(const job& what);

/// Returns how many samples a trainer's step has; the tutorial's steps differ, and have so many on average.
double samples_per_step(const job& what);

/// Checks the network of the job `what` on data of `spec`: settings that do not apply to the data, vectors of different
/// widths, sizes beyond any machine. Returns the first problem as a message; null if there is none.
std::optional<std::string> check_network(const job& what, const data_spec& spec);

/// Checks that the batches of a run of `steps` global steps have what the network's layers need: more than one value a
/// channel for batch normalisation. Returns the first problem as a message. Requires: `check_network` accepts the job.
std::optional<std::string> check_batches(const job& what, const dataset& data, std::uint64_t steps);

}  // namespace troupe::model
