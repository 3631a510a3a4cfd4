// `troupe train`: runs one job on this machine and reports it.

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "actors/run.hpp"
#include "apps/json_line.hpp"
#include "apps/progress.hpp"
#include "apps/report.hpp"
#include "apps/signals.hpp"
#include "apps/subcommand.hpp"
#include "model/job.hpp"

namespace troupe {
namespace {

/// Where a setting stands in the help.
const char* group_of(std::string_view name) {
  const auto is_one_of = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (is_one_of({"tables", "rows", "dim", "bag", "classes", "id-skew"})) return "Tables and synthetic data";
  if (is_one_of({"hidden", "interaction", "loss"})) return "Model";
  if (name.find("optimizer") != name.npos || is_one_of({"dense-lr", "sparse-lr", "lr-schedule"})) return "Optimizers";
  if (is_one_of({"sparse-reduce", "consistency", "bucket-mib", "nan"})) return "Working together";
  return "Job";
}

std::vector<setting> given_settings(const CLI::App& app) {
  std::vector<setting> given;
  for (const setting_info& info : job_settings()) {
    if (auto text = given_text(app, info.name)) given.emplace_back(info.name, std::move(*text));
  }
  return given;
}

std::string epoch_event(const epoch_summary& epoch) {
  json_line line("epoch");
  line.add("epoch", epoch.epoch).add("steps", epoch.steps).add("seconds", epoch.seconds);
  line.add("samples_per_s", static_cast<double>(epoch.samples) / epoch.seconds);
  line.add("loss", epoch.loss).add("auc", epoch.auc).add("accuracy", epoch.accuracy);
  return line.take();
}

std::string done_event(const run_report& report) {
  const run_summary& run = report.run;
  json_line line("done");
  line.add("steps", run.steps).add("samples", run.samples).add("seconds", run.seconds);
  line.add("setup_seconds", report.setup_seconds);
  line.add("steps_per_s", report.steps_per_s()).add("samples_per_s", report.samples_per_s());
  line.add("loss", run.loss).add("auc", run.auc).add("accuracy", run.accuracy);
  line.add("peak_rss_mib", report.peak_rss_mib).add("weights_digest", run.weights_digest);
  if (run.stopped) line.add("stopped", true);
  return line.take();
}

progress::style progress_style(const console& out) {
  if (out.quiet()) return progress::style::none;
  const progress::style fitting = progress::fitting_style();
  // Who reads JSON has each epoch already, and a live line would be drawn across it on the same terminal.
  if (out.json() && (fitting == progress::style::plain || out.to_terminal())) return progress::style::none;
  return fitting;
}

/// Shows a run as it goes, and ends it where nobody is left to see it.
class run_display {
 public:
  run_display(console& out, const job& what, const stop_request& stop)
      : out_(out), stop_(stop), progress_(progress_style(out), what.steps ? 0 : what.epochs) {}

  void step(const run_progress& now) {
    out_.flush();
    progress_.step(now);
    look_after_stop();
  }

  void epoch(const epoch_summary& now) {
    if (out_.json()) {
      out_.event(epoch_event(now));
    } else {
      history_.add(now);
    }
    progress_.epoch(now);
    look_after_stop();
  }

  void close() { progress_.clear(); }

  const epoch_history& history() const { return history_; }

 private:
  void look_after_stop() {
    if (out_.output_lost()) return stop_now();
    if (noted_ || !stop_.requested()) return;
    noted_ = true;
    progress_.note("stopping at the end of this step; a second signal quits at once");
  }

  console& out_;
  const stop_request& stop_;
  progress progress_;
  epoch_history history_;
  bool noted_ = false;
};

result<int> train(const CLI::App& app, const program_context& context) {
  console& out = context.out;
  const auto threads = read_machine_options(app);
  if (!threads) return tl::unexpected<fault>(threads.error());
  const auto what = parse_job(given_settings(app));
  if (!what) return tl::unexpected<fault>(what.error());

  const stop_request& stop = stop_on_signals();
  run_display display(out, *what, stop);
  run_options options;
  options.threads = *threads;
  options.observer.on_progress = [&](const run_progress& now) { display.step(now); };
  options.observer.on_epoch = [&](const epoch_summary& now) { display.epoch(now); };

  const std::chrono::duration<double> before_run = std::chrono::steady_clock::now() - context.started;
  auto run = run_job(*what, options, &stop);
  display.close();
  if (!run) return tl::unexpected<fault>(std::move(run.error()));

  run_report report{std::move(*run), 0, peak_rss_mib()};
  report.setup_seconds = before_run.count() + report.run.setup_seconds;
  if (out.json()) {
    out.result(done_event(report));
  } else {
    const std::string epochs = display.history().table();
    out.result(epochs + (epochs.empty() ? "" : "\n") + summary_table(report));
  }
  return exit_done;
}

}  // namespace

subcommand add_train(CLI::App& program, const program_context& context) {
  CLI::App* app = program.add_subcommand("train", "train a model");
  for (const setting_info& info : job_settings()) {
    std::string meaning = info.meaning;
    if (!info.default_text.empty()) meaning += " (default: " + info.default_text + ")";
    add_text_option(*app, info.name, info.value_name, meaning, group_of(info.name));
  }
  add_machine_options(*app);
  add_switch(*app, "json", "results as one JSON object a line", "Output");
  add_switch(*app, "quiet", "no progress", "Output");
  app->footer(
      "Examples:\n"
      "  troupe train\n"
      "  troupe train --data tutorial --trainers 2 --json\n"
      "  troupe train --data synthetic --rows 1000000 --dim 64 --servers 2 --dense-optimizer sgd:momentum=0.9\n"
      "Exit codes: 0 done, or stopped by the first Ctrl-C; 1 the run failed; 2 an option or a file is wrong;\n"
      "130 second Ctrl-C.");

  subcommand self;
  self.app = app;
  self.not_yet = {"--save",      "--checkpoint-every", "--resume",        "--processes",
                  "--print-job", "--devices",          "--bottom-hidden", "--trace",        "--trace-dir"};
  self.no_positional = "job files are not supported by this version of troupe";
  self.run = [app, context] { return train(*app, context); };
  return self;
}

}  // namespace troupe
