#include "apps/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "base/units.hpp"
#include "cluster/launch/console.hpp"
#include "cluster/launch/text.hpp"

namespace troupe::apps {
namespace {

constexpr auto plain_interval = std::chrono::milliseconds(100);
constexpr std::size_t bar_columns_min = 6;
/// Two brackets and a space.
constexpr std::size_t bar_frame_columns = 3;
constexpr std::size_t bar_columns_max = 40;
constexpr int bar_rank = 3;
constexpr int highest_rank = 6;
/// Widest line; a wider screen is not filled.
constexpr std::size_t line_columns_max = 120;

std::string bar(double done, std::size_t columns, bool color) {
  const auto filled = static_cast<std::size_t>(done * static_cast<double>(columns));
  std::string text = "[";
  if (color) text += "\x1b[32m";
  text.append(filled, '#');
  if (color) text += "\x1b[2m";
  text.append(columns - filled, '-');
  if (color) text += "\x1b[0m";
  return text + "]";
}

/// A piece of the line. If the line is too long, pieces of the highest rank are left out first, and those of a rank
/// above the bar's before the bar shrinks.
struct piece {
  int rank;
  std::string text;
};

/// Returns the metrics that the program has added, each name followed by its value.
std::string own_text(const model::own_figures& own, std::string_view between) {
  std::string text;
  for (const auto& one : own)
    if (one.value) text += fmt::format("{}{} {}", text.empty() ? "" : between, one.name(), significant(one.value));
  return text;
}

std::vector<piece> pieces_of(const progress_state& state, double done) {
  const int step_rank = state.epochs > 0 ? highest_rank : bar_rank;
  std::string epoch;
  if (state.epochs > 0)
    epoch =
        fmt::format("epoch {}/{}", count_text(std::min(state.epochs_done + 1, state.epochs)), count_text(state.epochs));
  return {
      {0, fmt::format("{:3.0f}%", done * 100)},
      {3, epoch},
      {step_rank, fmt::format("step {}/{}", count_text(state.run.step), count_text(state.run.total_steps))},
      {1, fmt::format("loss {}", fixed(state.run.loss, 4))},
      {2, state.auc    ? "AUC " + fixed(state.auc, 4)
          : state.rmse ? "RMSE " + significant(state.rmse)
                       : std::string()},
      {4, own_text(state.own, "  ")},
      {5, fmt::format("{} samples/s", compact(state.run.samples_per_s))},
      {4, fmt::format("{} left", clock_text(state.run.seconds_left))},
  };
}

std::string in_one_line(const std::vector<piece>& pieces, int rank_max) {
  std::string text;
  for (const piece& part : pieces) {
    if (part.rank > rank_max || part.text.empty()) continue;
    if (!text.empty()) text += "  ";
    text += part.text;
  }
  return text;
}

std::string plain_line(const actors::epoch_summary& now) {
  std::string line = fmt::format("troupe: epoch {}: {} steps, loss {}", count_text(now.epoch), count_text(now.steps),
                                 significant(now.figures.loss));
  if (now.figures.auc) line += ", AUC " + fixed(now.figures.auc, 4);
  if (now.figures.accuracy) line += ", accuracy " + fixed(now.figures.accuracy, 4);
  if (now.figures.rmse) line += ", RMSE " + significant(now.figures.rmse);
  if (const std::string own = own_text(now.figures.own, ", "); !own.empty()) line += ", " + own;
  const double rate = now.seconds > 0 ? static_cast<double>(now.samples) / now.seconds : 0;
  return line + fmt::format(", {} samples/s, {}\n", compact(rate), duration_text(now.seconds));
}

}  // namespace

std::string progress_line(const progress_state& state, std::size_t width, bool color) {
  const double total = static_cast<double>(state.run.total_steps);
  const double done = total > 0 ? std::clamp(static_cast<double>(state.run.step) / total, 0.0, 1.0) : 0;
  const auto pieces = pieces_of(state, done);
  std::string text;
  for (int rank_max = highest_rank; rank_max >= 0; --rank_max) {
    text = in_one_line(pieces, rank_max);
    if (text.size() + (rank_max > bar_rank ? bar_columns_min + bar_frame_columns : 0) <= width) break;
  }
  if (text.size() > width) return std::string();
  const std::size_t room = std::min(width, line_columns_max) - std::min(text.size(), line_columns_max);
  if (room < bar_columns_min + bar_frame_columns) return text;
  return bar(done, std::min(room - bar_frame_columns, bar_columns_max), color) + " " + text;
}

progress_display::style progress_display::fitting_style() {
  const char* term = std::getenv("TERM");
  const bool redraws = term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
  return redraws && isatty(STDERR_FILENO) == 1 ? style::live : style::plain;
}

progress_display::progress_display(style how, std::uint64_t epochs) : style_(how) {
  const char* no_color = std::getenv("NO_COLOR");
  color_ = no_color == nullptr || *no_color == '\0';
  state_.epochs = epochs;
}

void progress_display::step(const actors::run_progress& now) {
  if (style_ != style::live) return;
  state_.run = now;
  draw();
}

void progress_display::epoch(const actors::epoch_summary& now) {
  state_.epochs_done = now.epoch;
  if (now.figures.auc) state_.auc = now.figures.auc;
  if (now.figures.rmse) state_.rmse = now.figures.rmse;
  if (!own_text(now.figures.own, " ").empty()) state_.own = now.figures.own;
  if (style_ != style::plain) return;
  held_ = plain_line(now);
  if (const auto time = std::chrono::steady_clock::now(); time - last_plain_ >= plain_interval) {
    last_plain_ = time;
    console::log(held_);
    held_.clear();
  }
}

void progress_display::draw() {
  // The last column stays empty: some terminals wrap after writing it.
  const std::size_t columns = terminal_columns(STDERR_FILENO, 80);
  const std::string line = progress_line(state_, columns > 0 ? columns - 1 : 0, color_);
  console::log("\r" + line + "\x1b[K");
  drawn_ = true;
}

void progress_display::note(const std::string& text) {
  if (style_ == style::none) return;
  const bool redraw = drawn_;
  clear();
  console::log(fmt::format("troupe: {}\n", one_line(text)));
  if (redraw) draw();
}

void progress_display::clear() {
  if (drawn_) console::log("\r\x1b[K");
  drawn_ = false;
  if (!held_.empty()) console::log(held_);
  held_.clear();
}

}  // namespace troupe::apps
