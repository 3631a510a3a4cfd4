#include "apps/report.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>
#include <vector>

#include "apps/epoch_log.hpp"
#include "base/mapped.hpp"
#include "base/units.hpp"

namespace troupe::apps {
namespace {

/// Returns NaN if no time was measured: "-" in a table, null in JSON.
double rate(std::uint64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : std::numeric_limits<double>::quiet_NaN();
}

/// A metric of the test rows in the epoch table.
struct test_column {
  std::string title;
  std::size_t width;
  std::function<std::optional<double>(const model::epoch_figures&)> value;
  std::string (*text)(std::optional<double>);

  std::string of(const model::epoch_figures& figures) const { return text(value(figures)); }
};

std::string with_four_digits(std::optional<double> value) { return fixed(value, 4); }

/// Returns the metrics that have a value in some epoch, which depends on loss and targets: mse has no log loss, targets
/// that are not classes have errors only. With these the table has at most 80 columns; metrics that the program has
/// added follow.
std::vector<test_column> test_columns(const std::vector<model::epoch_figures>& epochs) {
  using figures = model::epoch_figures;
  const auto has = [&epochs](const auto& value) {
    return std::ranges::any_of(epochs, [&value](const figures& one) { return std::invoke(value, one).has_value(); });
  };
  std::vector<test_column> columns;
  if (has(&figures::rmse) && !has(&figures::accuracy))
    columns = {{"test loss", 9, &figures::test_loss, significant}, {"RMSE", 8, &figures::rmse, significant}};
  else
    columns = {{"AUC", 6, &figures::auc, with_four_digits},
               {"accuracy", 8, &figures::accuracy, with_four_digits},
               {"logloss", 7, &figures::log_loss, with_four_digits},
               {"RMSE", 7, &figures::rmse, with_four_digits},
               {"calibr.", 7, &figures::calibration, with_four_digits}};
  for (const auto& own : epochs.back().own) {
    const std::string name(own.name());
    constexpr std::size_t least = 8;
    columns.push_back({name, std::max(least, name.size()),
                       [name](const figures& one) { return one.own.value_of(name); }, significant});
  }
  std::erase_if(columns, [&has](const test_column& one) { return !has(one.value); });
  return columns;
}

}  // namespace

double run_report::steps_per_s() const { return rate(run.steps, run.seconds); }
double run_report::samples_per_s() const { return rate(run.samples, run.seconds); }
double run_report::goodput() const {
  if (steps_redone == 0) return 1;
  return static_cast<double>(run.steps) / static_cast<double>(run.steps + steps_redone);
}

epoch_history::epoch_history(int file) : file_(file) {
  rows before;
  if (file_ >= 0 && ::pread(file_, &before, sizeof(before), 0) == sizeof(before)) kept_ = before;
}

void epoch_history::add(const actors::epoch_summary& epoch) {
  kept_.last = row{epoch.epoch, epoch.steps, samples_per_s(epoch), epoch.seconds, epoch.figures};
  if ((epoch.epoch - 1) % kept_.stride == 0) kept_.all[kept_.count++] = *kept_.last;
  if (kept_.count > rows_max) {
    kept_.stride *= 2;
    const auto end = std::remove_if(kept_.all.begin(), kept_.all.end(),
                                    [this](const row& one) { return (one.epoch - 1) % kept_.stride != 0; });
    kept_.count = static_cast<std::size_t>(end - kept_.all.begin());
  }
  if (file_ >= 0) (void)!::pwrite(file_, &kept_, sizeof(kept_), 0);
}

std::string epoch_history::table() const {
  if (!kept_.last) return std::string();
  std::vector<row> lines(kept_.all.begin(), kept_.all.begin() + static_cast<std::ptrdiff_t>(kept_.count));
  if (lines.empty() || lines.back().epoch != kept_.last->epoch) lines.push_back(*kept_.last);
  const auto columns = test_columns(mapped(lines, &row::figures));
  std::string text = fmt::format("{:>6}  {:>6}  {:>8}", "epoch", "steps", "loss");
  for (const test_column& one : columns) text += fmt::format("  {:>{}}", one.title, one.width);
  text += fmt::format("  {:>9}  {:>7}\n", "samples/s", "seconds");
  for (const row& line : lines) {
    text += fmt::format("{:>6}  {:>6}  {:>8}", count_text(line.epoch), count_text(line.steps),
                        significant(line.figures.loss));
    for (const test_column& one : columns) text += fmt::format("  {:>{}}", one.of(line.figures), one.width);
    text += fmt::format("  {:>9}  {:>7}\n", compact(line.samples_per_s), fmt::format("{:.4g}", line.seconds));
  }
  if (kept_.last->epoch > rows_max)
    text += fmt::format("({} epochs; some are left out)\n", count_text(kept_.last->epoch));
  return text;
}

std::string summary_table(const run_report& report) {
  const actors::run_summary& run = report.run;
  std::string text;
  const auto line = [&](const std::string& name, const std::string& value) {
    text += fmt::format("{:<15} {}\n", name, value);
  };
  if (run.stopped) line("stopped", "on request, before the job's end");
  line("steps", count_text(run.steps));
  line("samples", count_text(run.samples));
  line("training", duration_text(run.seconds));
  line("set-up", duration_text(report.setup_seconds));
  line("steps/s", compact(report.steps_per_s()));
  line("samples/s", compact(report.samples_per_s()));
  line("loss", significant(run.figures.loss));
  // Shows only the metrics that the loss and the targets have.
  if (run.figures.test_loss) line("test loss", significant(run.figures.test_loss));
  if (run.figures.rmse) line("RMSE", significant(run.figures.rmse));
  if (run.figures.auc) line("AUC", fixed(run.figures.auc, 4));
  if (run.figures.accuracy) line("accuracy", fixed(run.figures.accuracy, 4));
  if (run.figures.log_loss) line("log loss", fixed(run.figures.log_loss, 4));
  if (run.figures.calibration) line("calibration", fixed(run.figures.calibration, 4));
  for (const auto& own : run.figures.own)
    if (own.value) line(std::string(own.name()), significant(own.value));
  if (report.attempts > 1)
    line("attempts", fmt::format("{}; {} steps were done again (goodput {:.1f} %)", report.attempts,
                                 count_text(report.steps_redone), 100 * report.goodput()));
  if (run.bubble) line("bubble", fmt::format("{:.1f} %", 100 * *run.bubble));
  if (!report.memberships.empty()) line("memberships", report.memberships);
  line("peak memory", fmt::format("{:.1f} MiB", report.peak_rss_mib));
  line("weights digest", run.weights_digest.empty() ? "-" : run.weights_digest);
  return text;
}

void add(json_line& line, const model::epoch_figures& figures) {
  line.add("loss", figures.loss).add("auc", figures.auc).add("accuracy", figures.accuracy);
  line.add("log_loss", figures.log_loss).add("calibration", figures.calibration);
  line.add("test_loss", figures.test_loss).add("rmse", figures.rmse);
  if (figures.own.empty()) return;
  const auto own = mapped(figures.own, [](const auto& one) {
    return fmt::format("{}:{}", json_string(one.name()), one.value ? json_number(*one.value) : "null");
  });
  line.add_json("metrics", fmt::format("{{{}}}", fmt::join(own, ",")));
}

json_line done_event(const run_report& report, const model::job& what) {
  const actors::run_summary& run = report.run;
  json_line line("done");
  line.add("steps", run.steps).add("samples", run.samples).add("seconds", run.seconds);
  line.add("setup_seconds", report.setup_seconds);
  line.add("steps_per_s", report.steps_per_s()).add("samples_per_s", report.samples_per_s());
  add(line, run.figures);
  line.add("peak_rss_mib", report.peak_rss_mib);
  line.add("attempts", report.attempts).add("goodput", report.goodput());
  if (!report.memberships.empty()) line.add("memberships", report.memberships);
  // A run that was stopped before it began has no weights.
  run.weights_digest.empty() ? line.add_json("weights_digest", "null") : line.add("weights_digest", run.weights_digest);
  if (what.nan == model::nan_policy::skip) line.add("skipped_steps", run.skipped_steps);
  if (what.staleness > 0)
    line.add("staleness_mean", run.staleness_mean).add("staleness_max", std::uint64_t{run.staleness_max});
  if (what.pipeline > 1) line.add("bubble", run.bubble);
  if (run.stopped) line.add("stopped", true);
  return line;
}

double peak_rss_mib() {
  std::ifstream status("/proc/self/status");
  for (std::string text; std::getline(status, text);) {
    if (text.rfind("VmHWM:", 0) != 0) continue;
    std::istringstream fields(text.substr(6));
    double kib = 0;
    if (fields >> kib) return kib / 1024;
  }
  rusage used{};  // without /proc: includes the peak of a shell that became this process
  return getrusage(RUSAGE_SELF, &used) == 0 ? static_cast<double>(used.ru_maxrss) / 1024 : 0;
}

}  // namespace troupe::apps
