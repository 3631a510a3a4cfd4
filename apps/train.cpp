// `troupe train`: runs a job on this machine, in one process or several, and reports it.

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <mutex>
#include <vector>

#include "actors/device_advice.hpp"
#include "apps/epoch_log.hpp"
#include "apps/job_notes.hpp"
#include "apps/progress.hpp"
#include "apps/report.hpp"
#include "apps/train.hpp"
#include "base/json_text.hpp"
#include "base/number.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "launch/network_options.hpp"
#include "launch/option_table.hpp"
#include "launch/processes.hpp"
#include "launch/restarts.hpp"
#include "launch/signals.hpp"
#include "launch/supervisor.hpp"
#include "launch/text.hpp"
#include "model/job.hpp"
#include "nodes/node.hpp"
#include "nodes/run_job.hpp"

namespace troupe::apps {

std::string resume_words(const train_order& order, const std::string& command) {
  return resume_advice(order.checkpoints, command + order.network_words + order.device_words);
}

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

/// Returns the file in which the attempts at this run keep the history of its epochs; -1: nobody supervises it.
int history_file() {
  attempt* mine = attempt::mine();
  if (mine == nullptr) return -1;
  constexpr const char* name = "epochs";
  if (const int kept = mine->kept(name); kept >= 0) return kept;
  const int made = memfd_create(name, MFD_CLOEXEC);
  if (made >= 0) mine->keep(name, made);
  return made;
}

/// Shows a run's progress, and stops the run if stdout is closed. Thread: any.
class run_display {
 public:
  run_display(console& out, const model::job& what, const nodes::stop_request& stop)
      : out_(out), stop_(stop), progress_(progress_style(out), what.steps ? 0 : what.epochs), history_(history_file()) {
    attempt* mine = attempt::mine();
    if (mine == nullptr) return;
    told_ = mine->before().told;
    out_.redirect([this, mine](std::string_view text) { return mine->print(text, told_); });
  }
  ~run_display() { out_.flush(); }
  run_display(const run_display&) = delete;
  run_display& operator=(const run_display&) = delete;

  void step(const actors::run_progress& now) {
    const std::lock_guard lock(mutex_);
    out_.flush();
    progress_.step(now);
    look_after_stop();
  }

  void epoch(const actors::epoch_summary& now) {
    const std::lock_guard lock(mutex_);
    if (now.epoch > history_.last()) history_.add(now);
    if (now.epoch <= told_) return;  // by an earlier attempt
    told_ = now.epoch;
    if (out_.json()) out_.event(epoch_event(now));
    // Where people read, stdout has nothing that would tell the supervisor, which has to know before they do: else an
    // attempt after a death in between would tell them again.
    if (attempt* mine = attempt::mine(); mine != nullptr && !out_.json()) mine->print({}, told_);
    progress_.epoch(now);
    look_after_stop();
  }

  void attempt_began(const attempt_news& now) {
    const std::lock_guard lock(mutex_);
    progress_.clear();
    out_.note(words_of(now));
    if (out_.json()) out_.event(event_of(now));
    out_.flush();
  }

  void checkpoint(const actors::checkpoint_summary& now) {
    if (now.problem)
      error({fault_kind::run,
             fmt::format("no checkpoint of step {}: {}; training goes on", now.step, now.problem->message)});
    const std::lock_guard lock(mutex_);
    if (!now.problem && out_.json()) out_.event(checkpoint_event(now));
    look_after_stop();
  }

  /// Reports an error that does not end the run.
  void error(const fault& what) {
    const std::lock_guard lock(mutex_);
    progress_.clear();
    out_.error(what);
  }

  void note(const std::string& line) {
    const std::lock_guard lock(mutex_);
    progress_.clear();
    out_.note(line);
  }

  /// Prints a line even with --quiet.
  void tell(const std::string& line) {
    const std::lock_guard lock(mutex_);
    progress_.clear();
    out_.tell(line);
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
  const nodes::stop_request& stop_;
  progress_display progress_;
  epoch_history history_;
  std::uint64_t told_ = 0;  ///< the last epoch of which stdout has an event, or soon has
  std::mutex mutex_;
  bool noted_ = false;
};

/// Runs the job and reports it. The exit code depends on whether all logs and checkpoints were written.
result<int> run_order(const train_order& order, nodes::run_options options, const trace_order& tracing,
                      run_trace& traced, epoch_logs& logs, const program_context& context) {
  console& out = context.out;
  options.recorder = traced.recorder();
  options.watch.step_timeout = tracing.step_timeout;
  options.watch.wanted = diagnosis_wanted;
  const nodes::stop_request& stop = stop_on_signals();
  run_display display(out, order.what, stop);
  bool all_saved = true;
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

  report_to_supervisor(options.observer, order.what.ranks(), traced.recorder(),
                       [&](const attempt_news& now) { display.attempt_began(now); });
  options.watch.on_diagnosis = [&](const std::string& line) { display.tell(line); };
  options.observer.on_note = [&](const std::string& line) { display.note(line); };
  if (const std::string on = actors::describe(options.devices, order.what.ranks(), order.what.servers); !on.empty())
    display.note(on);
  if (order.what.elastic.is_on())
    attempt::mine()->remember(memberships_name, model::to_string(order.what.elastic.memberships));
  if (const auto words = words_of_what_losses_change(order.what, options.devices)) display.note(*words);
  if (order.what.elastic.is_on() && !options.gather && !order.processes && attempt::mine()->before().number == 1)
    display.note(
        "one process listens nowhere, so troupe scale cannot reach it: use --processes, or plan --memberships");
  role_processes children;
  if (order.processes) {
    auto gather = gather_children(children, {.command = {"troupe", "train"},
                                             .servers = order.what.servers,
                                             .trainers = order.what.ranks(),
                                             .network = order.network,
                                             .tls = order.tls,
                                             .machine = order.machine,
                                             .variables = trace_variables(tracing, traced.recorder() != nullptr),
                                             .resume = resume_words(order, "troupe train --processes")});
    if (!gather) return tl::unexpected<fault>(std::move(gather.error()));
    options.gather = std::move(*gather);
    options.gather->rejoin_timeout = order.rejoin_timeout;
    // With a token other processes may ask for the status, and need the address.
    if (!order.network.mine.token.empty())
      options.gather->on_listening = [&, start = options.gather->on_listening](const links::endpoint& where) {
        display.note(fmt::format("listening on {} for {}", links::to_string(where),
                                 order.what.elastic.is_on() ? "troupe status, troupe stop and troupe scale"
                                                            : "troupe status and troupe stop"));
        start(where);
      };
  }

  const std::chrono::duration<double> before_run = std::chrono::steady_clock::now() - context.started;
  auto run = nodes::run_job(order.what, options, &stop);
  if (!run && fails_attempt(run.error())) {
    display.close();
    traced.finish(false, out);
    return exit_again;
  }
  if (run && run->goes_on_with > 0) {
    attempt& mine = *attempt::mine();
    mine.remember(memberships_name,
                  model::to_string(model::changed(order.what.elastic.memberships, run->steps, run->goes_on_with)));
    mine.goes_on_with(run->goes_on_with);
    display.close();
    traced.finish(true, out);
    return exit_again;
  }
  const supervision_end supervised = end_supervision(run ? std::optional(run->steps) : std::nullopt);
  auto ended = children.finish(run ? seen_off_after : let_go_after);
  ended.insert(ended.end(), supervised.roles.lines.begin(), supervised.roles.lines.end());
  for (const std::string& line : ended) display.note(line);
  display.close();
  traced.finish(run.has_value() || run.error().kind == fault_kind::input, out);
  if (!run) return tl::unexpected<fault>(std::move(run.error()));

  run_report report{.run = std::move(*run),
                    .peak_rss_mib = std::max({peak_rss_mib(), children.peak_rss_mib(), supervised.roles.peak_rss_mib}),
                    .attempts = supervised.attempts,
                    .steps_redone = supervised.steps_redone,
                    .memberships = model::to_string(order.what.elastic.memberships)};
  report.setup_seconds = before_run.count() + report.run.setup_seconds;
  if (out.json()) {
    out.result(done_event(report, order.what).take());
  } else {
    const std::string epochs = display.history().table();
    out.result(epochs + (epochs.empty() ? "" : "\n") + summary_table(report));
  }
  const bool all_written = all_saved && std::ranges::none_of(logs, [](const auto& log) { return log->failed(); });
  return all_written ? exit_done : exit_failed;
}

/// Refuses to overwrite the data files with metrics.
std::optional<std::string> check_metrics_csv(const train_order& order) {
  if (!order.metrics_csv) return std::nullopt;
  const std::string data_file = order.what.data.substr(order.what.data.find(':') + 1);
  for (const std::string& rows : {data_file, order.what.test_file}) {
    std::error_code no_such_file;
    if (std::filesystem::equivalent(*order.metrics_csv, rows, no_such_file))
      return fmt::format("--metrics-csv {}: is the file that rows are read from; name another file",
                         printable(*order.metrics_csv));
  }
  return std::nullopt;
}

/// Attempts must read the same rows: a file may have been replaced meanwhile. Checkpoints compare them too.
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

/// Makes and changes files only after all checks that may refuse the run.
result<int> run_train_order(const train_order& order, std::optional<nodes::gather_options> gather,
                            const program_context& context) {
  nodes::run_options options;
  options.gather = std::move(gather);
  options.threads = order.machine.threads;
  options.devices = order.machine.devices;
  options.batch_threads = order.machine.batch_threads;
  if (order.checkpoints.resume)
    options.checkpoints.from = std::make_shared<const model::checkpoint>(order.checkpoints.resume->what);
  stop_on_signals();  // before large files are read, which takes long
  TROUPE_TRY(data, nodes::check_run(order.what, options));
  if (auto wrong = check_metrics_csv(order)) return bad_input(std::move(*wrong));
  if (order.what.elastic.is_on() && (attempt::mine() == nullptr || !order.checkpoints.save))
    return bad_input(
        "--elastic: trainers join and leave between attempts, so it needs --save DIR and --restarts above 0");
  if (auto same = compare_with_attempt_before(order.what, *data); !same) return tl::unexpected(std::move(same.error()));
  tell_bubble(order.what, context.out);
  if (!options.gather || options.gather->on_this_machine) tell_memory(order, *data, context.out);
  trace_order tracing = order.traced;
  TROUPE_TRY(traced, run_trace::start(tracing, context.out));
  TROUPE_SET(options.checkpoints, open_checkpoints(order.checkpoints));
  std::optional<std::uint64_t> kept_to;
  if (order.checkpoints.resume) {
    const std::uint64_t done = order.checkpoints.resume->what.manifest.step;
    kept_to = done - data->epochs().of(done).step_of_epoch;
  }
  TROUPE_TRY(logs, open_epoch_logs(order.metrics_csv, order.tensorboard, kept_to));
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
  auto done = play_role(given_text(app, "role").value_or(""), given_text(app, "rank").value_or(""),
                        actors::program_trainer, context.out);
  if (!done) return tl::unexpected<fault>(std::move(done.error()));
  return exit_done;
}

result<int> run_train(const CLI::App& app, const program_context& context) {
  if (given_text(app, "role")) return run_role(app, context);
  if (const auto rank = given_text(app, "rank"))
    return bad_input("--rank {}: goes with --role only; the ranks of a run are its own business", printable(*rank));
  if (auto supervised = supervise_if_wanted(app, context.out); !supervised)
    return tl::unexpected<fault>(std::move(supervised.error()));
  TROUPE_TRY(order, read_train_order(app));
  TROUPE_TRY(is_printed, print_if_asked(app, order, context.out));
  if (is_printed) return exit_done;
  for (const char* name : {"dead-after", "request-timeout", "token-file"})
    if (!order.processes && given_text(app, name)) return bad_input("--{}: is for runs with --processes", name);
  order.tls = app.get_option("--tls")->count() > 0;
  if (order.tls && !order.processes) return bad_input("--tls: is for runs with --processes, which have links");
  order.machine.devices.follow(actors::advice_for(order.what));
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
  app->footer(
      "Examples:\n"
      "  troupe train\n"
      "  troupe train --data tutorial --trainers 2 --json\n"
      "  troupe train job.toml --seed 7 --metrics-csv metrics.csv\n"
      "  troupe train --data synthetic --rows 1000000 --dim 64 --servers 2\n"
      "Exit codes: 0 done, or stopped by the first Ctrl-C; 1 the run failed, or one of\n"
      "its files could not be written; 2 an option or a file is wrong; 130 second\n"
      "Ctrl-C.");

  return {app, "", run_train};
}

}  // namespace troupe::apps
