// What trainers report of a run, put together: epoch by epoch, and over all of it.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "actors/run_observer.hpp"
#include "actors/run_plan.hpp"

namespace troupe::actors {

/// One epoch, from all ranks, combined in rank order.
class epoch_totals {
 public:
  epoch_totals(std::uint32_t trainers, model::loss_kind loss)
      : loss_(loss), reports_(trainers), evaluations_(trainers) {}

  void add(msg::epoch_report&& report) { put(std::move(report), reports_); }
  void add(msg::evaluation&& share) { put(std::move(share), evaluations_); }

  /// True if every rank has reported, and evaluated where it said it would.
  bool complete() const;

  /// Loss: mean over the samples. Seconds: the slowest rank's. Metrics: over all ranks' test rows.
  epoch_summary summary() const;

 private:
  template <class Message>
  static void put(Message&& message, std::vector<std::optional<Message>>& by_rank) {
    auto& place = by_rank.at(message.rank);
    place = std::move(message);
  }

  model::loss_kind loss_;
  std::vector<std::optional<msg::epoch_report>> reports_;
  std::vector<std::optional<msg::evaluation>> evaluations_;
};

/// Belongs to the master.
class run_figures {
 public:
  using clock = std::chrono::steady_clock;

  /// As trainers told last, for those who ask.
  struct rates {
    double samples_per_s = 0;
    double steps_per_s = 0;
    clock::time_point at;
  };

  /// A run that goes on from a checkpoint counts on. `plan` must stay.
  void start(const run_plan& plan);
  void set_up_took(double seconds) { so_far_.setup_seconds = seconds; }

  run_progress add(const msg::progress& report);
  /// The epochs that are complete with this. A rank that is none is an exception.
  std::vector<epoch_summary> add(msg::epoch_report&& report);
  std::vector<epoch_summary> add(msg::evaluation&& share);

  /// Of all epochs that are complete; without steps and weights.
  const run_summary& so_far() const { return so_far_; }
  const std::optional<rates>& last_progress() const { return last_progress_; }
  void fill(msg::run_result& result) const;

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
