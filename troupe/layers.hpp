// The layers that Troupe has.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "troupe/module.hpp"

namespace troupe::model {
class layer;
struct layer_spec;
}  // namespace troupe::model

namespace troupe::nn {

/// y = x W^T + b, or without b. Initial parameters: uniform in ±1/sqrt(in_features).
class linear final : public module {
 public:
  /// Throws `error` if a size is 0.
  linear(std::size_t in_features, std::size_t out_features, bool bias = true);

  std::string type() const override { return "linear"; }
  std::vector<parameter> parameters() const override;
  void initialize(std::uint64_t key, float* parameters, float* buffers) const override;
  troupe::shape output(const tensor& input) const override;
  void forward(const pass& how, const pass_numbers& numbers) const override;
  void backward(const pass& how, const pass_numbers& numbers, const float* grad_output, float* grad_input,
                float* grad_parameters) const override;
  bool runs_on_devices() const override { return true; }

 private:
  std::size_t in_;
  std::size_t out_;
  bool has_bias_;
};

/// y = max(x, 0), of any shape; NaN stays NaN.
class relu final : public module {
 public:
  std::string type() const override { return "relu"; }
  /// Throws `error` unless it is float32.
  troupe::shape output(const tensor& input) const override;
  void forward(const pass& how, const pass_numbers& numbers) const override;
  void backward(const pass& how, const pass_numbers& numbers, const float* grad_output, float* grad_input,
                float* grad_parameters) const override;
  bool runs_on_devices() const override { return true; }
};

/// What the layers below have in common. They are those that job files describe in [[layers]], with PyTorch's meanings.
/// Inputs are of float32, [n, features], sequences [n, steps, features] or images [n, channels, height, width].
/// Constructors throw `error` for options out of range, `output` for inputs that the layer cannot take.
class described_layer : public module {
 public:
  std::string type() const override;
  std::vector<parameter> parameters() const override;
  std::vector<parameter> buffers() const override;
  void initialize(std::uint64_t key, float* parameters, float* buffers) const override;
  troupe::shape output(const tensor& input) const override;
  std::size_t saved(const tensor& input) const override;
  void forward(const pass& how, const pass_numbers& numbers) const override;
  void backward(const pass& how, const pass_numbers& numbers, const float* grad_output, float* grad_input,
                float* grad_parameters) const override;
  bool runs_on_devices() const override { return true; }
  bool uses_key() const override;
  bool synchronizes() const override;

 protected:
  explicit described_layer(const model::layer_spec& spec);
  /// Of a layer with parameters: `sample` is the shape of any sample that it takes; `width` names the length of it that
  /// the options do not limit.
  described_layer(const model::layer_spec& spec, const char* width, const troupe::shape& sample);

 private:
  std::unique_ptr<const model::layer> made_for(const tensor& input) const;

  std::shared_ptr<const model::layer_spec> spec_;
  std::shared_ptr<const model::layer> sample_;  ///< for the parameters; null: there are none
};

/// y = x Phi(x), by the error function.
class gelu final : public described_layer {
 public:
  gelu();
};

/// Drops a share `rate` of the numbers of training passes, at random, and scales the others by 1 / (1 - rate).
class dropout final : public described_layer {
 public:
  explicit dropout(double rate);
};

/// Makes a vector of each image.
class flatten final : public described_layer {
 public:
  flatten();
};

/// A convolution by square kernels; the padding is of zeros.
class conv2d final : public described_layer {
 public:
  /// As the arguments of PyTorch's Conv2d.
  struct options {
    std::size_t in_channels = 0;
    std::size_t out_channels = 0;
    std::size_t kernel = 0;
    std::size_t stride = 1;
    std::size_t padding = 0;
    bool bias = true;
  };
  explicit conv2d(const options& chosen);
};

/// The largest number of each window. `stride` 0: the kernel's size.
class max_pool2d final : public described_layer {
 public:
  explicit max_pool2d(std::size_t kernel, std::size_t stride = 0);
};

/// The mean of each window. `stride` 0: the kernel's size.
class avg_pool2d final : public described_layer {
 public:
  explicit avg_pool2d(std::size_t kernel, std::size_t stride = 0);
};

/// The mean of each channel: [n, channels].
class global_avg_pool2d final : public described_layer {
 public:
  global_avg_pool2d();
};

/// Normalises each channel of images, or each feature, by the mean and variance of this trainer's batch; in evaluation
/// by running statistics, which are rank 0's on all trainers. `scale` false: there is no `weight`.
///
/// `synchronized`: by those of the batches of all trainers together. For replicas (`trainer::data_parallel`), whose
/// trainers compute the same passes of the same step in the same order. One without a batch, or with fewer parts of
/// one, takes part from its optimizer step on. A pass waits for the other trainers, and may go on on another thread.
/// Refused on a server, and in a replica whose gradients are not synchronised; of a trainer alone it is the usual one.
class batch_norm final : public described_layer {
 public:
  /// As the arguments of PyTorch's BatchNorm1d and BatchNorm2d.
  struct options {
    std::size_t channels = 0;
    double eps = 1e-5;
    double momentum = 0.1;
    bool scale = true;
    bool synchronized = false;
  };
  explicit batch_norm(const options& chosen);
};

/// Normalises each row of [n, features].
class layer_norm final : public described_layer {
 public:
  explicit layer_norm(std::size_t features, double eps = 1e-5);
};

/// x = x0 * (W (V x) + b) + x, `layers` times, where x0 is the input: the cross layers of DLRM-DCNv2.
class low_rank_cross final : public described_layer {
 public:
  low_rank_cross(std::size_t features, std::size_t rank, std::size_t layers);
};

/// An LSTM of one layer through sequences [n, steps, features], PyTorch's with batch_first: gives the hidden states of
/// all steps [n, steps, hidden], or of the last one [n, hidden]. It carries a state [2, n, hidden], h and then c
/// (data_parallel.hpp). Also takes images of one channel, whose rows are the steps, and, if it is given `steps`, rows
/// [n, steps x features].
class lstm final : public described_layer {
 public:
  /// As the arguments of PyTorch's LSTM.
  struct options {
    std::size_t features = 0;
    std::size_t hidden = 0;
    std::size_t steps = 0;  ///< 0: as many as the input has
    bool last = false;
  };
  explicit lstm(const options& chosen);
  troupe::shape state(const tensor& input) const override;

 private:
  std::size_t hidden_;
};

/// How an embedding bag makes one row of several.
enum class pooling : std::uint8_t { sum, mean, max };

/// How the trainers' gradients of a remote module become one.
enum class reduction : std::uint8_t { sum, mean };

/// What the rows of a table begin with: a function of the run's seed, the table and the row, wherever the table is.
struct row_init {
  enum class kind : std::uint8_t { normal, uniform };

  kind is = kind::normal;
  double first = 1;   ///< normal: the deviation; uniform: the least number
  double second = 0;  ///< uniform: the largest one
};
/// Rows of N(0, 1), PyTorch's and the default, times `deviation`.
constexpr row_init normal(double deviation) { return {row_init::kind::normal, deviation, 0}; }
/// Rows of uniform numbers from `least` to `most`.
constexpr row_init uniform(double least, double most) { return {row_init::kind::uniform, least, most}; }
/// Rows of zeros.
inline constexpr row_init zeros = uniform(0, 0);

/// A table of rows, of which bags are looked up and pooled. It lives on a server: see `remote_module<embedding_bag>`.
struct embedding_bag {
  /// As the arguments of PyTorch's EmbeddingBag, and more.
  struct options {
    std::int64_t num_embeddings = 0;
    std::size_t embedding_dim = 0;
    pooling mode = pooling::mean;
    reduction reduce = reduction::sum;
    row_init init = {};
    /// What errors call the table: letters, digits, '_' and '-', the first one a letter. Otherwise, or if it is null, a
    /// table that `main` makes goes by its place among the modules there: `table 0`, as in checkpoints. No std::string,
    /// which gcc 12 would destroy twice in some coroutines.
    const char* name = "";
  };
};

}  // namespace troupe::nn
