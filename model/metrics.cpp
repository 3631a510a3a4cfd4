#include "model/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace troupe::model {

namespace {

constexpr double none = std::numeric_limits<double>::quiet_NaN();

double sigmoid(double logit) { return 1 / (1 + std::exp(-logit)); }

/// -target log(sigmoid(logit)) - (1 - target) log(1 - sigmoid(logit)), without overflow for logits of any size.
double binary_loss(double logit, double target) {
  return std::max(logit, 0.0) - logit * target + std::log1p(std::exp(-std::fabs(logit)));
}

/// -log(softmax(logits)[target]).
double softmax_loss(std::span<const float> logits, std::size_t target) {
  const double peak = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - peak);
  return std::log(sum) + (peak - logits[target]);
}

/// Returns the mean loss over a row's outputs. Requires: `loss` is not cross-entropy.
double value_loss(loss_kind loss, std::span<const float> out, const float* targets) {
  double sum = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double error = double{out[i]} - double{targets[i]};
    sum += loss == loss_kind::mse ? error * error : binary_loss(out[i], targets[i]);
  }
  return sum / static_cast<double>(out.size());
}

/// Returns the loss of a row, for a loss added by the program.
double added_loss(const nn::own_loss& loss, const batch& samples, std::size_t row, std::span<const float> out) {
  std::vector<float> copy(out.begin(), out.end());  // the loss overwrites the copy
  nn::loss_sample one{.outputs = copy};
  if (loss.form == nn::loss_form::classes)
    one.target_class = samples.classes[row];
  else
    one.targets = {samples.values.data() + row * out.size(), out.size()};
  return loss.of_sample(one);
}

void add_binary(float score, bool positive, double probability, predictions& p) {
  p.probability_sum += probability;
  p.scores.push_back(score);
  p.labels.push_back(positive ? 1.0F : 0.0F);
}

}  // namespace

void predict(const data_spec& spec, const loss_choice& loss, const batch& samples, const float* outputs,
             predictions& p) {
  const bool predicts_classes = loss == loss_kind::cross_entropy || spec.binary_targets;
  p.tested += samples.size;
  if (predicts_classes) p.rows += samples.size;
  for (std::size_t row = 0; row < samples.size; ++row) {
    const std::span<const float> out(outputs + row * spec.outputs, spec.outputs);
    if (loss.own != nullptr) p.loss_sum += added_loss(*loss.own, samples, row, out);
    if (loss == loss_kind::cross_entropy) {
      const auto target = static_cast<std::size_t>(samples.classes[row]);
      const auto best = static_cast<std::size_t>(std::ranges::max_element(out) - out.begin());
      const double row_loss = softmax_loss(out, target);
      p.correct += best == target ? 1 : 0;
      if (loss.own == nullptr) p.loss_sum += row_loss;
      p.log_loss_sum += row_loss;
      if (spec.binary_targets) add_binary(out[1] - out[0], target == 1, sigmoid(double{out[1]} - double{out[0]}), p);
      continue;
    }
    const double row_loss = value_loss(loss, out, samples.values.data() + row * spec.outputs);
    if (loss.own == nullptr) p.loss_sum += row_loss;
    if (!predicts_classes) continue;
    const bool has_logits = loss == loss_kind::bce_logits;
    const bool positive = samples.values[row] > 0.5F;
    p.correct += (out[0] > (has_logits ? 0.0F : 0.5F)) == positive ? 1 : 0;
    p.log_loss_sum += has_logits ? row_loss : none;
    add_binary(out[0], positive, has_logits ? sigmoid(out[0]) : out[0], p);
  }
}

double area_under_curve(std::span<const float> scores, std::span<const float> labels) {
  if (std::any_of(scores.begin(), scores.end(), [](float s) { return std::isnan(s); })) return none;
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
  return positives > 0 && negatives > 0 ? wins / (positives * negatives) : none;
}

double calibration(double probability_sum, std::span<const float> labels) {
  const auto positives = std::ranges::count_if(labels, [](float label) { return label > 0.5F; });
  return positives > 0 ? probability_sum / static_cast<double>(positives) : none;
}

}  // namespace troupe::model
