// Vectors for ids, such as those of a text.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "nn/layer.hpp"

namespace troupe::nn {

struct embedding_options {
  static constexpr const char* kind = "embedding";
  std::size_t rows = 0;
  std::size_t dim = 0;
  std::size_t positions = 0;  ///< 0: any number of ids, without vectors for positions
  double scale = 1;           ///< id = number * scale; 255 for the pixels of jobs, which are value / 255

  static const option_fields<embedding_options>& fields();
  bool operator==(const embedding_options&) const = default;
};

/// A trained table [rows, dim]; each number of a sample is a row's index: maps [n, ids], or one-channel images row by
/// row, to [n, ids, dim]. With `positions`, adds row t of a second table to the vector of a sample's id t. A row's
/// gradient is summed over samples, and in each over positions, in this order on every device. The ids' gradient is
/// zero.
class embedding final : public layer<embedding_options> {
 public:
  explicit embedding(const options& chosen);

  std::vector<parameter> parameters() const override;
  /// Fills in rows from N(0, 1), as PyTorch does.
  void initialize(std::uint64_t key, const tensor_list<float>& parameters,
                  const tensor_list<float>& buffers) const override;
  troupe::shape output(const tensor_view& input) const override;
  std::size_t saved(const tensor_view& input, const kernels::stream& on) const override;
  /// For numbers out of range, `forward` gives NaN.
  std::optional<id_range> ids() const override { return id_range{chosen_.rows, static_cast<float>(chosen_.scale)}; }
  void forward(const pass& how, const pass_numbers& numbers) const override;
  void backward(const pass& how, const pass_numbers& numbers, const gradients& of) const override;

 private:
  /// The address of a pass's ids; forward has computed them if they are scaled.
  const float* ids_of(const pass_numbers& numbers) const {
    return chosen_.scale == 1 ? numbers.input.as<float>().data() : numbers.saved.data();
  }
};

}  // namespace troupe::nn
