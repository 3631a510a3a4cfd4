// A run's progress on stderr: one line redrawn in place on a terminal, plain lines elsewhere.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "cluster/nodes/run.hpp"
#include "model/metrics.hpp"

namespace troupe::apps {

/// The data of the live line.
struct progress_state {
  /// Epochs of the job; 0 if its length is given in steps.
  std::uint64_t epochs = 0;
  std::uint64_t epochs_done = 0;
  actors::run_progress run;
  /// Figures of the last evaluated epoch.
  std::optional<double> auc;
  std::optional<double> rmse;
  model::own_figures own = {};
};

/// Returns the live line, at most `width` columns wide: the bar uses the remaining room, and less important pieces are
/// left out if there is too little. `color`: the bar is coloured.
std::string progress_line(const progress_state& state, std::size_t width, bool color);

/// Shows progress. Thread: one at a time.
class progress_display {
 public:
  enum class style { none, plain, live };

  /// Returns the style for stderr: live on a terminal that can redraw a line.
  static style fitting_style();

  progress_display(style how, std::uint64_t epochs);
  ~progress_display() { clear(); }
  progress_display(const progress_display&) = delete;
  progress_display& operator=(const progress_display&) = delete;

  void step(const actors::run_progress& now);
  void epoch(const actors::epoch_summary& now);

  /// Writes a separate line above the live line.
  void note(const std::string& text);

  /// Erases the live line; in plain style writes the last epoch if it is pending.
  void clear();

 private:
  void draw();

  style style_;
  bool color_;
  bool drawn_ = false;
  progress_state state_;
  /// The pending plain line. Since epochs may be short, at most ten plain lines a second are written,
  /// and always the last one.
  std::string held_;
  std::chrono::steady_clock::time_point last_plain_{};
};

}  // namespace troupe::apps
