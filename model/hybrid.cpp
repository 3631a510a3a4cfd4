#include "model/hybrid.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/loss.hpp"

namespace troupe {

namespace {

std::size_t input_width(const data_spec& spec) {
  return std::accumulate(spec.tables.begin(), spec.tables.end(), spec.dense_features,
                         [](std::size_t width, const table_spec& table) { return width + table.dim; });
}

}  // namespace

hybrid_model::hybrid_model(const data_spec& spec, std::span<const std::size_t> hidden, loss_kind loss)
    : spec_(spec), loss_(loss), network_(input_width(spec), hidden, spec.outputs) {
  std::size_t column = spec.dense_features;
  for (const table_spec& table : spec_.tables) {
    columns_.push_back(column);
    column += table.dim;
  }
}

void hybrid_model::place_dense(const batch& samples, float* input) const {
  const float* from = samples.dense.data();
  for (std::size_t row = 0; row < samples.size && spec_.dense_features > 0; ++row, from += spec_.dense_features)
    std::copy_n(from, spec_.dense_features, input + row * in_features());
}

double hybrid_model::loss(const batch& samples, float* outputs) const {
  switch (loss_) {
    case loss_kind::cross_entropy:
      return kernels::softmax_cross_entropy(samples.size, spec_.outputs, outputs, samples.classes.data(), outputs);
    case loss_kind::bce_logits:
      return kernels::bce_with_logits(samples.size, spec_.outputs, outputs, samples.values.data(), outputs);
    case loss_kind::mse:
      return kernels::mean_squared_error(samples.size, spec_.outputs, outputs, samples.values.data(), outputs);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace troupe
