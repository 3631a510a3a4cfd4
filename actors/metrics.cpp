#include "actors/metrics.hpp"

#include <algorithm>
#include <cmath>

#include "model/metrics.hpp"

namespace troupe {

namespace {

std::optional<double> present(double x) { return std::isnan(x) ? std::nullopt : std::optional<double>(x); }

}  // namespace

void epoch_gathering::add(epoch_report&& report) {
  const std::uint32_t rank = report.rank;
  reports_.at(rank) = std::move(report);
}

void epoch_gathering::add(evaluation&& share) {
  const std::uint32_t rank = share.rank;
  evaluations_.at(rank) = std::move(share);
}

bool epoch_gathering::complete() const {
  for (std::size_t rank = 0; rank < reports_.size(); ++rank)
    if (!reports_[rank] || (reports_[rank]->evaluates && !evaluations_[rank])) return false;
  return true;
}

epoch_summary epoch_gathering::summary() const {
  epoch_summary result;
  double loss_sum = 0;
  for (const auto& report : reports_) {
    result.epoch = report->epoch;
    result.step = report->head.step;
    result.steps = report->steps;
    result.samples += report->samples;
    result.seconds = std::max(result.seconds, report->seconds);
    loss_sum += report->loss_sum;
    result.skipped_steps = std::max(result.skipped_steps, report->skipped);  // all ranks skip the same ones
    result.staleness_max = std::max(result.staleness_max, report->staleness_max);
    result.staleness_sum += report->staleness_sum;
    result.lookups += report->lookups;
    const auto losses = report->losses.as<double>();
    result.losses.emplace_back(losses.begin(), losses.end());
  }
  result.figures.loss = loss_sum / static_cast<double>(result.samples);
  if (!reports_.front()->evaluates) return result;

  std::uint64_t rows = 0;
  std::uint64_t correct = 0;
  std::uint64_t tested = 0;
  double test_loss_sum = 0;
  double log_loss_sum = 0;
  double probability_sum = 0;
  std::vector<float> scores;
  std::vector<float> labels;
  for (const auto& share : evaluations_) {
    rows += share->rows;
    correct += share->correct;
    tested += share->tested;
    test_loss_sum += share->loss_sum;
    log_loss_sum += share->log_loss_sum;
    probability_sum += share->probability_sum;
    const auto more_scores = share->scores.as<float>();
    const auto more_labels = share->labels.as<float>();
    scores.insert(scores.end(), more_scores.begin(), more_scores.end());
    labels.insert(labels.end(), more_labels.begin(), more_labels.end());
  }
  if (rows > 0) {
    result.figures.accuracy = static_cast<double>(correct) / static_cast<double>(rows);
    result.figures.log_loss = present(log_loss_sum / static_cast<double>(rows));
  }
  if (tested > 0) result.figures.test_loss = present(test_loss_sum / static_cast<double>(tested));
  if (loss_ == loss_kind::mse && result.figures.test_loss) result.figures.rmse = std::sqrt(*result.figures.test_loss);
  result.figures.auc = present(area_under_curve(scores, labels));
  result.figures.calibration = present(calibration(probability_sum, labels));
  return result;
}

}  // namespace troupe
