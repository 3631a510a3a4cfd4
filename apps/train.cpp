// `troupe train`: runs a job on this machine, in one process or several, and reports it.

#include <fmt/format.h>

#include <algorithm>

#include "actors/common/device_advice.hpp"
#include "actors/trainer/memory_need.hpp"
#include "apps/added_help.hpp"
#include "apps/epoch_log.hpp"
#include "apps/report.hpp"
#include "apps/run_display.hpp"
#include "apps/train.hpp"
#include "base/number.hpp"
#include "base/result.hpp"
#include "base/stop_request.hpp"
#include "base/text.hpp"
#include "cluster/launch/attempt.hpp"
#include "cluster/launch/network_options.hpp"
#include "cluster/launch/option_table.hpp"
#include "cluster/launch/processes.hpp"
#include "cluster/launch/restarts.hpp"
#include "cluster/launch/signals.hpp"
#include "cluster/launch/stop_deadline.hpp"
#include "cluster/launch/supervisor.hpp"
#include "cluster/nodes/node.hpp"
#include "cluster/nodes/run_job.hpp"
#include "model/data.hpp"
#include "model/job.hpp"
#include "model/memory.hpp"
#include "model/stages.hpp"

namespace troupe::apps {

std::string resume_command(const train_order& order, const std::string& command) {
  return resume_advice(order.checkpoints, command + order.network_options_given + order.device_options_given);
}

namespace {

/// Reports how much memory a large run needs on this machine.
void report_memory(const train_order& order, const model::dataset& data, console& out) {
  const std::size_t ahead = actors::batches_made_ahead(order.machine.batch_threads, order.what.trainers);
  const auto need = actors::need_on_host(order.what, data.spec(), order.machine.devices, ahead);
  const auto available = static_cast<double>(model::available_memory());
  if (const auto much = actors::describe(need, order.what, available)) out.note(*much);
}

/// Reports how long the stages of a pipeline with few micro-batches are idle.
void report_bubble(const model::job& what, console& out) {
  if (what.micro_batches >= what.pipeline || what.streams()) return;
  out.note(fmt::format(
      "--micro-batches {}: fewer than the {} stages, so stages of equal length have nothing to do for {:.0f} % of a "
      "step; more take less",
      what.micro_batches, what.pipeline, 100 * model::bubble_of(what.pipeline, what.micro_batches)));
}

/// Reports notes on the data's files.
void report_files(const model::dataset& data, console& out) {
  const attempt* mine = attempt::mine();
  if (mine != nullptr && mine->before().number > 1) return;  // the first attempt has reported them
  for (const std::string& line : data.notes()) out.note(line);
}

/// Sends the run's events to `display`, and its epochs to the logs. `all_saved` becomes false when a checkpoint cannot
/// be saved. Requires: all of them outlive the run.
void observe(nodes::run_options& options, const train_order& order, run_display& display, epoch_logs& logs,
             bool& all_saved) {
  options.observer.on_checkpoint = [&](const actors::checkpoint_summary& now) {
    all_saved = all_saved && !now.problem;
    display.checkpoint(now);
  };
  options.observer.on_progress = [&](const actors::run_progress& now) { display.step(now); };
  options.observer.on_epoch = [&](const actors::epoch_summary& now) {
    for (const auto& log : logs)
      if (const auto written = log->add(now); !written) display.error(written.error());
    display.epoch(now);
  };
  report_to_supervisor(options.observer, order.what.ranks(), options.recorder,
                       [&](const attempt_news& now) { display.attempt_began(now); });
  options.watch.on_diagnosis = [&](const std::string& line) { display.report(line); };
  options.observer.on_note = [&](const std::string& line) { display.note(line); };
  options.observer.on_stop = stop_now;
}

/// Notes conditions before the run begins: devices, effects of losses, and what `troupe scale` reaches.
void note_conditions(const train_order& order, const nodes::run_options& options, run_display& display) {
  if (const std::string on = actors::describe(options.devices, order.what.ranks(), order.what.servers); !on.empty())
    display.note(on);
  if (const auto text = lossy_settings_note(order.what, options.devices)) display.note(*text);
  if (order.what.elastic.is_on() && !options.gather && !order.processes && attempt::mine()->before().number == 1)
    display.note(
        "one process listens nowhere, so troupe scale cannot reach it: use --processes, or plan --memberships");
}

/// With --processes: has the run start its servers and trainers as `children`.
result<void> use_processes(role_processes& children, const train_order& order, const trace_order& tracing,
                           nodes::run_options& options, run_display& display) {
  TROUPE_SET(options.gather,
             gather_children(children, {.command = {"troupe", "train"},
                                        .servers = order.what.servers,
                                        .trainers = order.what.ranks(),
                                        .network = order.network,
                                        .tls = order.tls,
                                        .machine = order.machine,
                                        .variables = trace_variables(tracing, options.recorder != nullptr),
                                        .resume = resume_command(order, "troupe train --processes")}));
  options.gather->rejoin_timeout = order.rejoin_timeout;
  // With a token other processes may ask for the status, and need the address.
  if (order.network.mine.token.empty()) return {};
  const char* commands =
      order.what.elastic.is_on() ? "troupe status, troupe stop and troupe scale" : "troupe status and troupe stop";
  options.gather->on_listening = [&display, commands, start = options.gather->on_listening](const auto& where) {
    display.note(fmt::format("listening on {} for {}", links::description_of(where), commands));
    start(where);
  };
  return {};
}

/// Whether another attempt follows the one that has ended: after a loss, or with another number of trainers. Then the
/// supervisor has been notified, and the process must end with `exit_again`.
bool another_attempt_follows(const train_order& order, const result<actors::run_summary>& run) {
  if (!run) return fails_attempt(run.error());
  if (run->goes_on_with == 0) return false;
  attempt& mine = *attempt::mine();
  mine.remember(memberships_name,
                model::to_string(model::changed(order.what.elastic.memberships, run->steps, run->goes_on_with)));
  mine.goes_on_with(run->goes_on_with);
  return true;
}

/// Prints the result of a successful run.
void print_result(const run_report& report, const train_order& order, const epoch_history& history, console& out) {
  if (out.json()) return out.result(done_event(report, order.what).take());
  const std::string epochs = history.table();
  out.result(epochs + (epochs.empty() ? "" : "\n") + summary_table(report));
}

/// Runs the job and reports it. The exit code depends on whether all logs and checkpoints were written.
result<int> run_order(const train_order& order, nodes::run_options options, const trace_order& tracing,
                      run_trace& traced, epoch_logs& logs, const program_context& context) {
  console& out = context.out;
  options.recorder = traced.recorder();
  options.watch.step_timeout = tracing.step_timeout;
  options.watch.wanted = diagnosis_wanted;
  run_display display(out, order.what);
  bool all_saved = true;
  observe(options, order, display, logs, all_saved);
  if (order.what.elastic.is_on())
    attempt::mine()->remember(memberships_name, model::to_string(order.what.elastic.memberships));
  note_conditions(order, options, display);
  role_processes children;
  if (order.processes) TROUPE_DO(use_processes(children, order, tracing, options, display));

  const std::chrono::duration<double> before_run = std::chrono::steady_clock::now() - context.started;
  auto run = nodes::run_job(order.what, options, &stop_on_signals());
  const bool is_clean = run || traced.note_failure(run.error(), false);
  if (another_attempt_follows(order, run)) {
    display.close();
    traced.finish(run.has_value(), out);
    return exit_again;
  }
  const supervision_end supervised = end_supervision(run ? std::optional(run->steps) : std::nullopt);
  auto ended = children.finish(run ? exit_timeout : kill_timeout);
  ended.insert(ended.end(), supervised.roles.lines.begin(), supervised.roles.lines.end());
  for (const std::string& line : ended) display.note(line);
  display.close();
  traced.finish(is_clean, out);
  if (!run) return tl::unexpected<fault>(std::move(run.error()));

  run_report report{.run = std::move(*run),
                    .peak_rss_mib = std::max({peak_rss_mib(), children.peak_rss_mib(), supervised.roles.peak_rss_mib}),
                    .attempts = supervised.attempts,
                    .steps_redone = supervised.steps_redone,
                    .memberships = model::to_string(order.what.elastic.memberships)};
  report.setup_seconds = before_run.count() + report.run.setup_seconds;
  print_result(report, order, display.history(), out);
  const bool all_written = all_saved && std::ranges::none_of(logs, [](const auto& log) { return log->failed(); });
  return all_written ? exit_done : exit_failed;
}

/// Attempts must read the same rows: a file may have been replaced meanwhile. Checkpoints also compare them.
result<void> compare_with_attempt_before(const model::job& what, const model::dataset& data) {
  attempt* mine = attempt::mine();
  if (mine == nullptr) return {};
  constexpr const char* name = "data_digest";
  if (const std::string before = mine->remembered(name); !before.empty() && before != data.digest())
    return bad_input(
        "--data {}: is not what it was: the rows differ from those that the attempt before had read; bring them back, "
        "or start anew",
        what.data);
  mine->remember(name, data.digest());
  return {};
}

}  // namespace

int report_unbegun(const train_order& order, const program_context& context) {
  nodes::run_options options;
  options.checkpoints = order.checkpoints.how;
  run_report report{.run = nodes::unbegun(options)};
  if (const attempt* mine = attempt::mine()) report.run.steps = std::max(report.run.steps, mine->before().saved);
  const supervision_end supervised = end_supervision(report.run.steps);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - context.started;
  report.setup_seconds = took.count();
  report.peak_rss_mib = std::max(peak_rss_mib(), supervised.roles.peak_rss_mib);
  report.attempts = supervised.attempts;
  report.memberships = model::to_string(order.what.elastic.memberships);
  context.out.result(context.out.json() ? done_event(report, order.what).take() : summary_table(report));
  return exit_done;
}

/// Makes and changes files only after all checks that may refuse the run.
result<int> run_train_order(const train_order& order, std::optional<nodes::gather_options> gather,
                            const program_context& context) {
  nodes::run_options options;
  options.gather = std::move(gather);
  static_cast<machine_options&>(options) = order.machine;
  options.checkpoints = order.checkpoints.how;
  auto checked = nodes::check_run(order.what, options);
  if (stop_asked()) return report_unbegun(order, context);
  TROUPE_TRY(data, std::move(checked));
  if (order.what.elastic.is_on() && (attempt::mine() == nullptr || !order.checkpoints.save))
    return bad_input(
        "--elastic: trainers join and leave between attempts, so it needs --save DIR and --restarts above 0");
  TROUPE_DO(compare_with_attempt_before(order.what, *data));
  report_bubble(order.what, context.out);
  report_files(*data, context.out);
  if (!options.gather || options.gather->own_members) report_memory(order, *data, context.out);
  trace_order tracing = order.traced;
  TROUPE_TRY(traced, run_trace::start(tracing, context.out));
  traced.report_if_crashed(context.out);
  TROUPE_SET(options.checkpoints, open_checkpoints(order.checkpoints));
  std::optional<std::uint64_t> kept_to;
  if (order.checkpoints.resume) {
    const std::uint64_t done = order.checkpoints.resume->what.manifest.step;
    kept_to = done - data->epochs().of(done).step_of_epoch;
  }
  TROUPE_TRY(logs, open_epoch_logs(order.metrics_csv, order.tensorboard, kept_to, order.what.metrics));
  if (order.checkpoints.resume)
    for (const std::string& line : order.checkpoints.resume->warnings) context.out.warning(line);
  return run_order(order, std::move(options), tracing, traced, logs, context);
}

namespace {

/// Runs a process that --processes has started.
result<int> run_role(const CLI::App& app, const program_context& context) {
  // CLI11 gives hidden options, such as role and rank, no name.
  for (const CLI::Option* option : app.get_options())
    if (option->count() > 0 && !option->get_name().empty())
      return bad_input(
          "{}: does not go with --role, which is for the processes that 'troupe train --processes' starts; use 'troupe "
          "join'",
          option->get_name());
  TROUPE_DO(play_role(given_text(app, "role").value_or(""), given_text(app, "rank").value_or(""),
                      actors::program_trainer, context.out));
  return exit_done;
}

result<int> run_train(const CLI::App& app, const program_context& context) {
  if (given_text(app, "role")) return run_role(app, context);
  if (const auto rank = given_text(app, "rank"))
    return bad_input("--rank {}: goes with --role only; the ranks of a run are its own business", printable(*rank));
  TROUPE_DO(supervise_if_wanted(app, context.out));
  const stop_scope heeds(stop_on_signals(context.out));
  const stop_deadline overdue(context.out, stopping_part::leader);
  const model::dataset_holder rows;  // keeps data that the advice on devices may open, until the run opens it
  auto read = read_train_order(app);
  if (stop_asked()) return report_unbegun({}, context);
  TROUPE_TRY(order, std::move(read));
  auto printed = print_if_asked(app, order, context.out);
  if (stop_asked()) return report_unbegun(order, context);
  TROUPE_TRY(is_printed, std::move(printed));
  if (is_printed) return exit_done;
  for (const char* name : {"dead-after", "request-timeout", "token-file"})
    if (!order.processes && given_text(app, name)) return bad_input("--{}: is for runs with --processes", name);
  order.tls = app.get_option("--tls")->count() > 0;
  if (order.tls && !order.processes) return bad_input("--tls: is for runs with --processes, which have links");
  order.machine.devices.follow(actors::advice_for(order.what));
  if (stop_asked()) return report_unbegun(order, context);
  auto ready = read_timeouts(app, order.network);
  if (ready && order.processes) ready = give_to_processes(order.machine, order.what.ranks(), context.out);
  if (ready && order.processes) ready = read_own_token(app, order.network, context.out);
  if (!ready) return tl::unexpected(std::move(ready.error()));
  auto code = run_train_order(order, std::nullopt, context);
  if (!code) return tl::unexpected<fault>(model::located(std::move(code.error()), order.file));
  return code;
}

}  // namespace

subcommand add_train(CLI::App& program) {
  CLI::App* app = program.add_subcommand("train", "train a model");
  add_train_options(*app);
  add_options(*app, option_set::graphs);
  add_options(*app, option_set::processes);
  add_options(*app, option_set::timeouts);
  add_options(*app, option_set::process_tls);
  add_options(*app, option_set::token, "with --processes, the variable TROUPE_TOKEN, or a random one");
  // Hidden options, for the processes that --processes starts.
  app->add_option("--role")->group("");
  app->add_option("--rank")->group("");
  add_switch(*app, "json", "results as one JSON object a line", "Output");
  add_switch(*app, "quiet", "no progress", "Output");
  app->footer(added_help() +
              "Examples:\n"
              "  troupe train\n"
              "  troupe train --data tutorial --trainers 2 --json\n"
              "  troupe train job.toml --seed 7 --metrics-csv metrics.csv\n"
              "  troupe train --data synthetic --rows 1000000 --dim 64 --servers 2\n"
              "Exit codes: 0 done, or stopped by the first Ctrl-C; 1 the run failed, did not\n"
              "end within 5 s of that, or could not write one of its files; 2 an option or a\n"
              "file is wrong; 130 second Ctrl-C.");

  return {app, "", run_train};
}

}  // namespace troupe::apps
