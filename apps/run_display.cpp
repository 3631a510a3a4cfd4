#include "apps/run_display.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <string_view>

#include "apps/epoch_log.hpp"
#include "base/json_text.hpp"
#include "cluster/launch/attempt.hpp"
#include "cluster/launch/signals.hpp"

namespace troupe::apps {
namespace {

std::string epoch_event(const actors::epoch_summary& epoch) {
  json_line line("epoch");
  line.add("epoch", epoch.epoch).add("steps", epoch.steps).add("seconds", epoch.seconds);
  line.add("samples_per_s", samples_per_s(epoch));
  add(line, epoch.figures);
  return line.take();
}

std::string checkpoint_event(const actors::checkpoint_summary& taken) {
  return json_line("checkpoint")
      .add("step", taken.step)
      .add("seconds", taken.seconds)
      .add("stood_still", taken.stood_still)
      .take();
}

progress_display::style progress_style(const console& out) {
  if (out.quiet()) return progress_display::style::none;
  const progress_display::style fitting = progress_display::fitting_style();
  // JSON output has each epoch already, and on the same terminal a live line would overwrite it.
  if (out.json() && (fitting == progress_display::style::plain || out.to_terminal()))
    return progress_display::style::none;
  return fitting;
}

/// Returns the file in which the attempts at this run keep the history of its epochs; -1: it is not supervised.
int history_file() {
  attempt* mine = attempt::mine();
  if (mine == nullptr) return -1;
  constexpr const char* name = "epochs";
  if (const int kept = mine->kept(name); kept >= 0) return kept;
  const int made = memfd_create(name, MFD_CLOEXEC);
  if (made >= 0) mine->keep(name, made);
  return made;
}

}  // namespace

run_display::run_display(console& out, const model::job& what)
    : out_(out), progress_(progress_style(out), what.steps ? 0 : what.epochs), history_(history_file()) {
  attempt* mine = attempt::mine();
  if (mine == nullptr) return;
  reported_ = mine->before().reported;
  out_.redirect([this, mine](std::string_view text) { return mine->print(text, reported_); });
}

void run_display::step(const actors::run_progress& now) {
  const std::lock_guard lock(mutex_);
  out_.flush();
  progress_.step(now);
  look_after_output();
}

void run_display::epoch(const actors::epoch_summary& now) {
  const std::lock_guard lock(mutex_);
  if (now.epoch > history_.last()) history_.add(now);
  if (now.epoch <= reported_) return;  // an earlier attempt has reported it
  reported_ = now.epoch;
  if (out_.json()) out_.event(epoch_event(now));
  // Without JSON, no output to stdout informs the supervisor, which must know of the epoch before the user does:
  // otherwise an attempt after a crash in between would report the epoch again.
  if (attempt* mine = attempt::mine(); mine != nullptr && !out_.json()) mine->print({}, reported_);
  progress_.epoch(now);
  look_after_output();
}

void run_display::attempt_began(const attempt_news& now) {
  const std::lock_guard lock(mutex_);
  progress_.clear();
  out_.note(description_of(now));
  if (out_.json()) out_.event(event_of(now));
  out_.flush();
}

void run_display::checkpoint(const actors::checkpoint_summary& now) {
  if (now.problem)
    error({fault_kind::run,
           fmt::format("no checkpoint of step {}: {}; training continues", now.step, now.problem->message)});
  const std::lock_guard lock(mutex_);
  if (!now.problem && out_.json()) out_.event(checkpoint_event(now));
  look_after_output();
}

void run_display::error(const fault& what) {
  const std::lock_guard lock(mutex_);
  progress_.clear();
  out_.error(what);
}

void run_display::note(const std::string& line) {
  const std::lock_guard lock(mutex_);
  progress_.clear();
  out_.note(line);
}

void run_display::report(const std::string& line) {
  const std::lock_guard lock(mutex_);
  progress_.clear();
  out_.report(line);
}

void run_display::look_after_output() {
  if (out_.output_lost()) stop_now();
}

}  // namespace troupe::apps
