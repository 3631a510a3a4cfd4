// How a run is going, on stderr: one line redrawn in place on a terminal, plain lines elsewhere.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "cluster/run.hpp"

namespace troupe::apps {

/// What the live line shows.
struct progress_state {
  /// Epochs of the job; 0 if its end is counted in steps.
  std::uint64_t epochs = 0;
  std::uint64_t epochs_done = 0;
  actors::run_progress run;
  /// Of the last epoch that was evaluated.
  std::optional<double> auc;
  std::optional<double> rmse;
};

/// The live line, at most `width` columns wide: a bar as long as there is room, and what matters less left out first
/// where there is none. `color` puts the bar in colour.
std::string progress_line(const progress_state& state, std::size_t width, bool color);

/// Shows progress. Not for two threads at a time.
class progress_display {
 public:
  enum class style { none, plain, live };

  /// What suits stderr: live on a terminal that can redraw a line.
  static style fitting_style();

  progress_display(style how, std::uint64_t epochs);
  ~progress_display() { clear(); }
  progress_display(const progress_display&) = delete;
  progress_display& operator=(const progress_display&) = delete;

  void step(const actors::run_progress& now);
  void epoch(const actors::epoch_summary& now);

  /// A line of its own, above the live line.
  void note(const std::string& text);

  /// Takes the live line away; plain style writes the last epoch if it was held back.
  void clear();

 private:
  void draw();

  style style_;
  bool color_;
  bool drawn_ = false;
  progress_state state_;
  /// Short epochs come by the ten thousand: plain lines are written at most ten a second, and the last in any case.
  std::string held_;
  std::chrono::steady_clock::time_point last_plain_{};
};

}  // namespace troupe::apps
