// The LSTM.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nn/layer.hpp"

namespace troupe::nn {

/// Options, as in PyTorch's LSTM.
struct lstm_options {
  static constexpr const char* kind = "lstm";
  std::size_t features = 0;  ///< 0 in job files: as many as the input has
  std::size_t hidden = 0;
  std::size_t steps = 0;  ///< 0: as many as the input has
  bool last = false;

  static const option_fields<lstm_options>& fields();
  void fit(const troupe::shape& sample);
  bool operator==(const lstm_options&) const = default;
};

/// A one-layer LSTM over sequences [n, steps, features], as PyTorch's with batch_first: returns the hidden states of
/// all steps [n, steps, hidden], or of the last one [n, hidden]. Its state is [2, n, hidden], h and then c
/// (data_parallel.hpp). Also accepts one-channel images, whose rows are the steps, and, if `steps` is set, rows [n,
/// steps x features].
class lstm final : public layer<lstm_options> {
 public:
  explicit lstm(const options& chosen);

  std::vector<parameter> parameters() const override;
  void initialize(std::uint64_t key, const tensor_list<float>& parameters,
                  const tensor_list<float>& buffers) const override;
  troupe::shape output(const tensor_view& input) const override;
  std::size_t saved(const tensor_view& input, const kernels::stream& on) const override;
  troupe::shape state(const tensor_view& input) const override;
  void forward(const pass& how, const pass_numbers& numbers) const override;
  /// Replaces the gates by the gradients of their sums.
  void backward(const pass& how, const pass_numbers& numbers, const gradients& of) const override;
  std::uint64_t multiply_adds(const tensor_view& input) const override;

 private:
  struct kept_numbers;

  std::size_t steps_of(const tensor_view& input) const { return input.count() / input.shape()[0] / chosen_.features; }
  std::size_t gates() const { return 4 * chosen_.hidden; }
  kept_numbers kept_of(const pass_numbers& numbers) const;
  void begin(const pass& how, const pass_numbers& numbers, const kept_numbers& kept) const;
  void backward_steps(const pass& how, const pass_numbers& numbers, const gradients& of) const;
};

}  // namespace troupe::nn
