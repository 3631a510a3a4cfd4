#include "actors/master/run_figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "model/metric_sums.hpp"
#include "model/metrics.hpp"

namespace troupe::actors {

namespace {

std::optional<double> present(double x) { return std::isnan(x) ? std::nullopt : std::optional<double>(x); }

}  // namespace

bool epoch_totals::complete() const {
  for (std::size_t rank = 0; rank < reports_.size(); ++rank)
    if (!reports_[rank] || (reports_[rank]->evaluates && !evaluations_[rank])) return false;
  return true;
}

epoch_summary epoch_totals::summary() const {
  epoch_summary result;
  double loss_sum = 0;
  for (const auto& report : reports_) {
    result.epoch = report->epoch;
    result.step = report->head.step;
    result.steps = report->steps;
    result.samples += report->samples;
    result.seconds = std::max(result.seconds, report->seconds);
    loss_sum += report->loss_sum;
    result.skipped_steps = std::max(result.skipped_steps, report->skipped);  // all ranks skip the same steps
    result.staleness_max = std::max(result.staleness_max, report->staleness_max);
    result.staleness_sum += report->staleness_sum;
    result.lookups += report->lookups;
    const auto losses = report->losses.as<double>();
    result.losses.emplace_back(losses.begin(), losses.end());
  }
  result.figures.loss = loss_sum / static_cast<double>(result.samples);
  if (!reports_.front()->evaluates) {
    result.figures.own = model::metric_sums(metrics_).figures(0);
    return result;
  }

  msg::evaluation all;
  std::vector<float> scores;
  std::vector<float> labels;
  for (const auto& share : evaluations_) {
    all.rows += share->rows;
    all.correct += share->correct;
    all.tested += share->tested;
    all.loss_sum += share->loss_sum;
    all.log_loss_sum += share->log_loss_sum;
    all.probability_sum += share->probability_sum;
    const auto more_scores = share->scores.as<float>();
    const auto more_labels = share->labels.as<float>();
    scores.insert(scores.end(), more_scores.begin(), more_scores.end());
    labels.insert(labels.end(), more_labels.begin(), more_labels.end());
  }
  if (all.rows > 0) {
    result.figures.accuracy = static_cast<double>(all.correct) / static_cast<double>(all.rows);
    result.figures.log_loss = present(all.log_loss_sum / static_cast<double>(all.rows));
  }
  if (all.tested > 0) result.figures.test_loss = present(all.loss_sum / static_cast<double>(all.tested));
  if (loss_ == model::loss_kind::mse && loss_.own == nullptr && result.figures.test_loss)
    result.figures.rmse = std::sqrt(*result.figures.test_loss);
  result.figures.auc = present(model::area_under_curve(scores, labels));
  result.figures.calibration = present(model::calibration(all.probability_sum, labels));
  result.figures.own = own_figures_of(all.tested);
  return result;
}

model::own_figures epoch_totals::own_figures_of(std::uint64_t rows) const {
  model::metric_sums all(metrics_);
  for (const auto& share : evaluations_) {
    const std::span<const std::int64_t> limbs =
        share->own.empty() ? std::span<const std::int64_t>() : share->own.front().as<std::int64_t>();
    if (!all.merge(limbs))
      throw std::invalid_argument(fmt::format("trainer {} has sums that are not those of --metrics", share->rank));
  }
  return all.figures(rows);
}

// -- all epochs --------------------------------------------------------------------

void run_figures::start(const run_plan& plan) {
  plan_ = &plan;
  if (plan.steps_done == 0) return;
  const model::run_position& position = plan.checkpoints.from->manifest.position;
  so_far_.samples = position.samples;
  so_far_.seconds = position.seconds;
  so_far_.skipped_steps = position.skipped_steps;
  so_far_.figures = position.last_epoch.value_or(model::epoch_figures{});
  // The run may have other metrics than the run that saved.
  const model::own_figures saved = std::exchange(so_far_.figures.own, {});
  for (const auto& metric : plan.figures.metrics)
    if (std::ranges::find(saved, metric->name, &model::own_figures::figure::name) != saved.end())
      so_far_.figures.own.add(metric->name, saved.value_of(metric->name));
}

run_progress run_figures::add(const msg::progress& report) {
  const std::uint64_t step = report.head.step;
  const std::uint64_t steps_of_epoch = plan_->epochs ? plan_->epochs->of(step - 1).step_of_epoch + 1 : step;
  last_progress_ = {static_cast<double>(report.samples) * plan_->trainers / report.seconds,
                    static_cast<double>(steps_of_epoch) / report.seconds, clock::now()};
  const double seconds = so_far_.seconds + report.seconds;
  const std::uint64_t left = std::max(plan_->total_steps, step) - step;
  return {.step = step,
          .total_steps = plan_->total_steps,
          .loss = report.loss_sum / static_cast<double>(report.loss_samples),
          .samples_per_s = last_progress_->samples_per_s,
          .seconds_left = seconds / static_cast<double>(step) * static_cast<double>(left)};
}

std::vector<epoch_summary> run_figures::add(msg::epoch_report&& report) {
  gathering(report.epoch).add(std::move(report));
  return take_complete();
}

std::vector<epoch_summary> run_figures::add(msg::evaluation&& share) {
  gathering(share.epoch).add(std::move(share));
  return take_complete();
}

epoch_totals& run_figures::gathering(std::uint64_t epoch) {
  return gathering_.try_emplace(epoch, plan_->trainers, plan_->figures.loss, plan_->figures.metrics).first->second;
}

/// Returns the complete epochs, in order, and removes them.
std::vector<epoch_summary> run_figures::take_complete() {
  std::vector<epoch_summary> complete;
  while (!gathering_.empty() && gathering_.begin()->second.complete()) {
    epoch_summary epoch = gathering_.begin()->second.summary();
    gathering_.erase(gathering_.begin());
    // An epoch that ended before this run, which has only evaluated it.
    if (epoch.samples == 0 && epoch.losses.front().empty()) epoch.figures.loss = so_far_.figures.loss;
    so_far_.samples += epoch.samples;
    so_far_.seconds += epoch.seconds;
    so_far_.figures = epoch.figures;
    so_far_.skipped_steps += epoch.skipped_steps;
    so_far_.staleness_max = std::max(so_far_.staleness_max, epoch.staleness_max);
    staleness_sum_ += epoch.staleness_sum;
    lookups_ += epoch.lookups;
    complete.push_back(std::move(epoch));
  }
  return complete;
}

bool run_figures::has_epoch() const {
  return plan_->checkpoints.from && plan_->checkpoints.from->manifest.position.last_epoch;
}

void run_figures::fill(msg::run_result& result) const {
  result.samples = so_far_.samples;
  result.setup_seconds = so_far_.setup_seconds;
  result.seconds = so_far_.seconds;
  result.loss = so_far_.figures.loss;
  result.auc = so_far_.figures.auc;
  result.accuracy = so_far_.figures.accuracy;
  result.log_loss = so_far_.figures.log_loss;
  result.calibration = so_far_.figures.calibration;
  result.test_loss = so_far_.figures.test_loss;
  result.rmse = so_far_.figures.rmse;
  for (const auto& one : so_far_.figures.own) result.own.push_back({std::string(one.name()), one.value});
  result.skipped_steps = so_far_.skipped_steps;
  result.staleness_max = so_far_.staleness_max;
  if (lookups_ > 0) result.staleness_mean = static_cast<double>(staleness_sum_) / static_cast<double>(lookups_);
}

}  // namespace troupe::actors
