// The figures that trainers report, combined for each epoch and for the whole run.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "actors/master/run_observer.hpp"
#include "actors/master/run_plan.hpp"

namespace troupe::actors {

/// The figures of one epoch, combined in rank order.
class epoch_totals {
 public:
  epoch_totals(std::uint32_t trainers, model::loss_choice loss, nn::own_metrics metrics = {})
      : loss_(std::move(loss)), metrics_(std::move(metrics)), reports_(trainers), evaluations_(trainers) {}

  void add(msg::epoch_report&& report) { put(std::move(report), reports_); }
  void add(msg::evaluation&& share) { put(std::move(share), evaluations_); }

  /// Returns whether every rank has reported, and has evaluated if it announced an evaluation.
  bool complete() const;

  /// Loss: mean over the samples. Seconds: the slowest rank's. Metrics: over all ranks' test rows. Throws
  /// std::invalid_argument if a rank's sums do not fit the metrics.
  epoch_summary summary() const;

 private:
  template <class Message>
  static void put(Message message, std::vector<std::optional<Message>>& by_rank) {
    auto& place = by_rank.at(message.rank);
    place = std::move(message);
  }

  model::own_figures own_figures_of(std::uint64_t rows) const;

  model::loss_choice loss_;
  nn::own_metrics metrics_;
  std::vector<std::optional<msg::epoch_report>> reports_;
  std::vector<std::optional<msg::evaluation>> evaluations_;
};

/// Belongs to the master.
class run_figures {
 public:
  using clock = std::chrono::steady_clock;

  /// The rates of the last progress report, for status queries.
  struct rates {
    double samples_per_s = 0;
    double steps_per_s = 0;
    clock::time_point at;
  };

  /// A resumed run continues the checkpoint's counts. Requires: `plan` outlives this object.
  void start(const run_plan& plan);
  void set_up_took(double seconds) { so_far_.setup_seconds = seconds; }
  /// Adds the seconds of training. For a run without epochs: otherwise the epoch reports contain them.
  void training_took(double seconds) { so_far_.seconds += seconds; }

  run_progress add(const msg::progress& report);
  /// Returns the epochs that this report completes. Throws std::out_of_range for a rank that does not exist.
  std::vector<epoch_summary> add(msg::epoch_report&& report);
  std::vector<epoch_summary> add(msg::evaluation&& share);

  /// The figures of all complete epochs, without steps and weights.
  const run_summary& so_far() const { return so_far_; }
  const std::optional<rates>& last_progress() const { return last_progress_; }
  void fill(msg::run_result& result) const;
  /// Returns whether the resumed run had finished an epoch.
  bool has_epoch() const;

 private:
  epoch_totals& gathering(std::uint64_t epoch);
  std::vector<epoch_summary> take_complete();

  const run_plan* plan_ = nullptr;
  std::map<std::uint64_t, epoch_totals> gathering_;  // by epoch
  run_summary so_far_;
  std::uint64_t staleness_sum_ = 0;
  std::uint64_t lookups_ = 0;
  std::optional<rates> last_progress_;
};

}  // namespace troupe::actors
