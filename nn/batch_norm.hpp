// Batch normalization over the batch of one trainer or of all.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nn/layer.hpp"

namespace troupe::kernels {
struct channels_shape;
}

namespace troupe::nn {

/// Options, as in PyTorch's BatchNorm1d and BatchNorm2d.
struct batch_norm_options {
  static constexpr const char* kind = "batch_norm";
  std::size_t channels = 0;  ///< 0 in job files: as many as the input has
  double eps = 1e-5;
  double momentum = 0.1;
  bool scale = true;
  bool synchronized = false;

  static const option_fields<batch_norm_options>& fields();
  void fit(const troupe::shape& sample) { channels = sample[0]; }
  bool operator==(const batch_norm_options&) const = default;
};

/// Normalizes each channel of images, or each feature, by the mean and variance of this trainer's batch; in evaluation
/// by running statistics, which are rank 0's on all trainers. `scale` false: there is no `weight`.
///
/// `synchronized`: by the statistics of all trainers' batches together. For replicas (`trainer::data_parallel`), whose
/// trainers compute the same passes of a step in the same order. A trainer without a batch, or with fewer parts of one,
/// joins from its optimizer step on. A pass waits for the other trainers, and may resume on another thread. Refused on
/// a server, and in a replica whose gradients are not synchronized; with one trainer it is plain batch normalization.
class batch_norm final : public layer<batch_norm_options> {
 public:
  explicit batch_norm(const options& chosen);

  std::vector<parameter> parameters() const override;
  std::vector<parameter> buffers() const override;
  void initialize(std::uint64_t key, const tensor_list<float>& parameters,
                  const tensor_list<float>& buffers) const override;
  troupe::shape output(const tensor_view& input) const override;
  std::size_t saved(const tensor_view& input, const kernels::stream& on) const override;
  void forward(const pass& how, const pass_numbers& numbers) const override;
  void backward(const pass& how, const pass_numbers& numbers, const gradients& of) const override;
  bool synchronizes() const override { return chosen_.synchronized; }

 private:
  kernels::channels_shape shape_of(const tensor_view& input) const;
  const float* weight(const pass_numbers& numbers) const;
  bool asks(const pass& how) const { return chosen_.synchronized && how.ranks != nullptr; }
  std::vector<float> on_host(const pass& how, const float* from) const;
  void update_moments(const pass& how, const pass_numbers& numbers) const;
  double join_moments(double count, std::span<float> moments, rank_means& ranks) const;
  void join_sums(double count, std::span<float> sums, rank_means& ranks) const;
  void backward_input(const pass& how, const pass_numbers& numbers, const gradients& of) const;
};

}  // namespace troupe::nn
