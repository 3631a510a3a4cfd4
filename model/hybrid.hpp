// The hybrid model: embedding tables and dense features, a network, and a loss.
//
// The input is the dense features, then the tables' pooled rows in order, which come from parameter servers. This class
// is the dense part, which every trainer holds. Its last part is the top network: an MLP, or layers as the job
// describes them. The interaction between input and top network:
//
//   cat  none.
//   dot  as in DLRM (Naumov et al., 2019): a bottom MLP, with a ReLU after each of its layers, makes a vector of the
//        tables' width from the dense features. The top network's input: that vector, then the dots of all pairs of the
//        vectors (the bottom MLP's, then the tables'), in the order of kernels/interaction.hpp. Without dense features
//        there is no bottom MLP, and the input is only the dots.
//   dcn  as in DLRM-DCNv2 (Wang et al., 2021): the bottom MLP as with dot. The top network's input: that vector, then
//        the tables' pooled rows; its first layers are low-rank cross layers. Without dense features or tables there is
//        no bottom MLP.
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
#include "nn/layer_spec.hpp"
#include "nn/module.hpp"

namespace troupe::model {

/// Layers [first, end) of a list.
struct layer_range {
  std::size_t first = 0;
  std::size_t end = 0;
};

/// A network, or a stage of one.
struct network {
  std::shared_ptr<const nn::module> module;
  troupe::shape in;  ///< of a sample

  std::size_t in_features() const { return in.count(); }
  std::size_t out_features() const;
  std::size_t parameter_count() const { return nn::count_of(module->parameters()); }
  /// The multiply-adds of a sample's forward pass in matrix products.
  std::uint64_t multiply_adds() const;
  /// The floats that a step keeps for each sample: activations and gradients, including the input's.
  std::size_t numbers_per_sample() const;
};

/// Inputs are rows [n, width]: the dense features, then the tables' pooled rows.
class hybrid_model final : public nn::module {
 public:
  /// A model with interaction `cat`.
  hybrid_model(const data_spec& spec, std::span<const std::size_t> hidden);

  /// The model of a job. Requires: `check_network` accepts the job.
  hybrid_model(const data_spec& spec, const job& what);
  /// The model whose top network has only the layers before `end` (`layers_of_top`): the first stage of a pipeline.
  /// With several slices (`tensor_parallel.hpp`) it is one slice's model.
  hybrid_model(const data_spec& spec, const job& what, std::size_t end, std::uint32_t slices = 1);

  const data_spec& spec() const { return spec_; }
  std::size_t in_features() const { return layout_.width; }
  std::string type() const override { return "hybrid"; }
  /// bottom.0.weight, bottom.0.bias, ..., top.0.weight, ...
  std::vector<nn::parameter> parameters() const override;
  /// top.1.running_mean, ...
  std::vector<nn::parameter> buffers() const override;
  /// `seed`: the job's.
  void initialize(std::uint64_t seed, const nn::tensor_list<float>& parameters,
                  const nn::tensor_list<float>& buffers) const override;
  troupe::shape output(const troupe::tensor_view& input) const override;
  std::size_t saved(const troupe::tensor_view& input, const kernels::stream& on) const override;
  /// The ids that the top network reads, if the dense features are its input.
  std::optional<nn::id_range> ids() const override;
  void forward(const nn::pass& how, const nn::pass_numbers& numbers) const override;
  /// The gradient of the input may be left out if there are no tables. The dense features' columns get gradients if
  /// they are the top network's input, but zeros if a bottom MLP is in between: their gradients are not needed.
  void backward(const nn::pass& how, const nn::pass_numbers& numbers, const nn::gradients& of) const override;
  std::vector<nn::parameter_range> ranges() const override;
  /// Runs from the top network's last layer to the bottom MLP's first one.
  void backward_parameters(const nn::pass& how, const nn::pass_numbers& numbers,
                           const troupe::view<const float>& grad_output, nn::gradient_places& to) const override;
  bool runs_on_devices() const override { return top_.module->runs_on_devices(); }
  std::string first_without_device_code() const override { return top_.module->first_without_device_code(); }
  bool uses_key() const override { return top_.module->uses_key(); }
  bool synchronizes() const override { return top_.module->synchronizes(); }
  std::uint64_t multiply_adds(const troupe::tensor_view& input) const override;

  /// Returns the first column of table `table`'s pooled row in the input.
  std::size_t column_of(std::size_t table) const { return layout_.columns[table]; }

 private:
  struct places;

  hybrid_model(const data_spec& spec, const job& what, network top);

  std::size_t bottom_count() const { return nn::count_of(bottom_parameters_); }
  /// Returns whether the top network's input is computed from the model's input.
  bool joins() const { return bottom_ || interaction_ == interaction_kind::dot; }
  /// Returns whether its passes are the top network's, with the same numbers.
  bool is_top_alone() const { return !joins() && top_.in.dimensions() == 1; }
  places places_of(const nn::pass_numbers& numbers, const kernels::stream& on) const;
  template <class T>
  std::vector<kernels::row_matrix<T>> vectors(T* of_bottom, T* input) const;
  void interact(const nn::pass& how, const nn::pass_numbers& numbers, const places& at) const;
  void interact_backward(const nn::pass& how, const nn::pass_numbers& numbers, const places& at,
                         float* grad_input) const;

  data_spec spec_;
  interaction_kind interaction_;
  input_layout layout_;
  std::optional<nn::sequential> bottom_;
  network top_;
  std::vector<nn::parameter> bottom_parameters_;
  std::vector<nn::parameter> top_parameters_;
  std::vector<nn::parameter> top_buffers_;
};

network as_network(hybrid_model of);

/// Returns an MLP of these widths as layers.
std::vector<nn::layer_spec> mlp_layers(std::span<const std::size_t> hidden, std::size_t out);
/// Returns whether a bottom MLP is between the dense features and the top network.
bool has_bottom(const job& what, const data_spec& spec);
/// Returns the layers of the bottom MLP.
std::vector<nn::layer_spec> bottom_layers(const job& what, const data_spec& spec);
/// Returns the layers of a job's top network for samples of `spec`; none if it is an MLP with the job's hidden widths.
std::vector<nn::layer_spec> top_layers(const job& what, const data_spec& spec);
/// Returns the same; for an MLP, its layers.
std::vector<nn::layer_spec> layers_of_top(const job& what, const data_spec& spec);
/// Makes the top network.
nn::sequential make_top(const data_spec& spec, const job& what);
/// Makes layers of the top network, for a stage of a pipeline after the first. Its bits are those of the whole network.
/// With several slices, it is one slice's network.
network make_layers_of_top(const data_spec& spec, const job& what, layer_range part, std::uint32_t slices = 1);
/// Returns the shape of the top network's input: an image if the data are images and the job gives layers, else a
/// vector.
troupe::shape top_input(const job& what, const data_spec& spec);

/// Returns the shapes of a job's data from the job alone, without its file: a bag of a file counts as one index. A
/// program's own data set is opened for that. Null if that fails, and for idx and a reference run. Requires:
/// `parse_job` accepted the job.
std::optional<data_spec> spec_of(const job& what);

/// Returns how many samples a trainer's step has; for the tutorial, whose steps differ, the mean.
double samples_per_step(const job& what);

/// Checks the network of the job `what` on data of `spec`: settings that do not apply to the data, vectors of different
/// widths, sizes beyond any machine. Returns the first problem as a message, or null.
std::optional<std::string> check_network(const job& what, const data_spec& spec);

/// Returns the ids that the dense features must be, if the network looks them up first.
std::optional<nn::id_range> ids_of(const job& what, const data_spec& spec);

/// Checks that the batches of a run of `steps` global steps satisfy the network's layers: batch normalisation needs
/// more than one value per channel. Returns the first problem as a message. Requires: `check_network` accepts the job.
std::optional<std::string> check_batches(const job& what, const dataset& data, std::uint64_t steps);

}  // namespace troupe::model
