#include "model/hybrid.hpp"

#include <algorithm>
#include <cmath>
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

bool hybrid_model::is_binary() const { return spec_.binary_targets; }

void hybrid_model::predict(const batch& samples, const float* outputs, predictions& p) const {
  for (std::size_t row = 0; row < samples.size; ++row) {
    const float* out = outputs + row * spec_.outputs;
    if (loss_ == loss_kind::cross_entropy) {
      const auto best = std::max_element(out, out + spec_.outputs) - out;
      p.correct += best == samples.classes[row] ? 1 : 0;
      if (is_binary()) {
        p.scores.push_back(out[1] - out[0]);
        p.labels.push_back(static_cast<float>(samples.classes[row]));
      }
    } else if (is_binary()) {
      const float threshold = loss_ == loss_kind::bce_logits ? 0.0F : 0.5F;
      const bool positive = samples.values[row] > 0.5F;
      p.correct += (out[0] > threshold) == positive ? 1 : 0;
      p.scores.push_back(out[0]);
      p.labels.push_back(positive ? 1.0F : 0.0F);
    }
  }
}

double area_under_curve(std::span<const float> scores, std::span<const float> labels) {
  if (std::any_of(scores.begin(), scores.end(), [](float s) { return std::isnan(s); }))
    return std::numeric_limits<double>::quiet_NaN();
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return scores[a] < scores[b]; });
  double positives = 0;
  double negatives = 0;
  double wins = 0;  // pairs in which the positive row scores higher, ties half
  for (std::size_t i = 0; i < order.size();) {
    double tied_positives = 0;
    double tied_negatives = 0;
    const float score = scores[order[i]];
    for (; i < order.size() && scores[order[i]] == score; ++i)
      (labels[order[i]] > 0.5F ? tied_positives : tied_negatives) += 1;
    wins += tied_positives * (negatives + 0.5 * tied_negatives);
    positives += tied_positives;
    negatives += tied_negatives;
  }
  return positives > 0 && negatives > 0 ? wins / (positives * negatives) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace troupe
