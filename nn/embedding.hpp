// Vectors of ids, such as those of a text.

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
  std::size_t positions = 0;  ///< 0: of any number of ids, whose positions have no vectors
  double scale = 1;           ///< an id is a number times this; 255 for the pixels of jobs, which are value / 255

  static const option_fields<embedding_options>& fields();
  bool operator==(const embedding_options&) const = default;
};

/// A trained table [rows, dim], of which each number of a sample names a row: makes [n, ids, dim] of [n, ids], or of
/// images of one channel row by row. With `positions`, adds row t of a second table to that of a sample's id t. A row's
/// gradient is the sum over samples, and in each over positions, in this order on every device. Ids have none: zeros.
class embedding final : public layer<embedding_options> {
 public:
  explicit embedding(const options& chosen);

  std::vector<parameter> parameters() const override;
  /// As PyTorch's, of N(0, 1).
  void initialize(std::uint64_t key, const tensor_list<float>& parameters,
                  const tensor_list<float>& buffers) const override;
  troupe::shape output(const tensor_view& input) const override;
  std::size_t saved(const tensor_view& input, const kernels::stream& on) const override;
  /// Of other numbers, `forward` makes NaN.
  std::optional<id_range> ids() const override { return id_range{chosen_.rows, static_cast<float>(chosen_.scale)}; }
  void forward(const pass& how, const pass_numbers& numbers) const override;
  void backward(const pass& how, const pass_numbers& numbers, const gradients& of) const override;

 private:
  /// Where the ids of a pass are, of which forward has computed those that are scaled.
  const float* ids_of(const pass_numbers& numbers) const {
    return chosen_.scale == 1 ? numbers.input.as<float>().data() : numbers.saved.data();
  }
};

}  // namespace troupe::nn
