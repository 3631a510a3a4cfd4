// Runs a user's program: leads its run, or joins one.

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <utility>

#include "base/exception_text.hpp"
#include "cluster/launch/processes.hpp"
#include "cluster/launch/rejoin.hpp"
#include "cluster/launch/restarts.hpp"
#include "cluster/launch/signals.hpp"
#include "cluster/launch/stop_deadline.hpp"
#include "cluster/launch/supervisor.hpp"
#include "cluster/launch/text.hpp"
#include "cluster/nodes/thread_memory.hpp"
#include "model/checkpoint/resume.hpp"
#include "trace/replay/outcome.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/program.hpp"
#include "troupe/runtime/setting_names.hpp"

namespace troupe::runtime {

namespace {

/// A child's command line, before its role: makes its main act as this one's.
std::vector<std::string> command_of(const program_order& order) {
  std::vector<std::string> text = {order.name, "--servers", std::to_string(order.servers)};
  text.insert(text.end(), order.settings_given.begin(), order.settings_given.end());
  return text;
}

/// Returns advice on how to resume a lost run.
std::string resume_command(const program_order& order, const std::string& how) {
  std::string command = order.name + " " + how + order.network_options_given;
  for (const std::string& word : order.settings_given) command += " " + launch::shell_word(word);
  return launch::resume_advice(order.checkpoints, command);
}

void fill_gather(nodes::run_options& options, program_order& order, launch::role_processes& children,
                 const program_run& what, bool records, launch::console& out) {
  if (order.processes) {
    auto gather = launch::gather_children(children, {.command = command_of(order),
                                                     .servers = order.servers,
                                                     .trainers = what.trainers,
                                                     .network = order.network,
                                                     .tls = order.tls,
                                                     .machine = order.machine,
                                                     .variables = launch::trace_variables(order.tracing, records),
                                                     .resume = resume_command(order, "--processes")});
    if (!gather) throw error(error_kind::run, gather.error().message);
    options.gather = std::move(*gather);
    options.gather->rejoin_timeout = order.rejoin_timeout;
  } else if (order.listen) {
    auto gather = launch::gather_at(*order.listen, order.network,
                                    resume_command(order, "--listen " + links::to_string(*order.listen)),
                                    order.rejoin_timeout, order.servers, what.trainers, out);
    if (!gather) throw error(error_kind::input, gather.error().message);
    options.gather = std::move(*gather);
  }
}

nodes::run_request request_of(const program_order& order, const program_run& what) {
  return {.servers = order.servers,
          .trainers = what.trainers,
          .program = order.name,
          .settings = what.settings,
          .plan = what.plan,
          .make_trainer = what.make_trainer};
}

result<actors::run_summary> lead(program_order order, const program_run& what, launch::console& out) {
  TROUPE_DO(nodes::check_threads(order.machine.threads));
  if (order.processes || order.listen)
    TROUPE_DO(nodes::check_descriptors(order.processes ? order.servers + what.trainers : 2));
  // Too little room is no error here: a program may need none, and its first product would report it.
  if (!order.processes && !order.listen) (void)nodes::prepare_products(order.machine.threads, 0);
  if (order.processes) TROUPE_DO(launch::give_to_processes(order.machine, what.trainers, out));
  nodes::run_options options;
  static_cast<nodes::machine_options&>(options) = order.machine;
  options.observer.on_note = [&out](const std::string& line) { out.note(line); };
  options.observer.on_stop = launch::stop_now;
  options.watch.on_diagnosis = [&out](const std::string& line) { out.report(line); };
  options.watch.wanted = launch::diagnosis_wanted;
  options.watch.step_timeout = order.tracing.step_timeout;
  std::optional<std::uint64_t> unsaved;  // the step of the last checkpoint, if that failed
  options.observer.on_checkpoint = [&out, &unsaved](const actors::checkpoint_summary& now) {
    unsaved = now.problem ? std::optional(now.step) : std::nullopt;
    if (now.problem)
      out.error({fault_kind::run,
                 fmt::format("no checkpoint of step {}: {}; training continues", now.step, now.problem->message)});
  };
  TROUPE_SET(options.checkpoints, launch::open_checkpoints(order.checkpoints));
  if (order.checkpoints.resume)
    for (const std::string& line : order.checkpoints.resume->warnings) out.warning(line);
  TROUPE_TRY(traced, launch::run_trace::start(order.tracing, out));
  traced.report_if_crashed(out);
  options.recorder = traced.recorder();
  launch::report_to_supervisor(options.observer, what.trainers, options.recorder,
                               [&out](const launch::attempt_news& now) { out.note(launch::description_of(now)); });
  launch::role_processes children;
  fill_gather(options, order, children, what, traced.recorder() != nullptr, out);
  bool has_begun = false;
  actors::note_begin(options.observer, has_begun);
  const launch::stop_deadline overdue(out, launch::stopping_part::leader);
  auto run = nodes::run(request_of(order, what), options, &launch::stop_on_signals(out));
  const bool is_clean = run || traced.note_failure(run.error(), has_begun);
  if (!run && launch::fails_attempt(run.error())) {
    traced.finish(false, out);
    std::fflush(nullptr);
    std::_Exit(launch::exit_again);
  }
  const auto supervised = launch::end_supervision(run ? std::optional(run->steps) : std::nullopt);
  for (const std::string& line : supervised.roles.lines) out.note(line);
  for (const std::string& line : children.finish(run ? launch::exit_timeout : launch::kill_timeout)) out.note(line);
  traced.finish(is_clean, out);
  if (run && unsaved) return run_fault("the run is over, but not saved: there is no checkpoint of step {}", *unsaved);
  return run;
}

/// Replays a recorded run.
result<actors::run_summary> lead_again(const program_order& order, const program_run& what, launch::console& out) {
  const recorded_run& before = *order.replayed;
  const std::vector<model::setting>& recorded = before.order.settings;
  if (auto differs = model::first_difference(recorded, what.settings, {})) return bad_input(std::move(*differs));
  replay::replay again(before.order, before.recorded);
  nodes::run_options options;
  options.threads = order.machine.threads;
  options.replayed = &again;
  const launch::stop_deadline overdue(out, launch::stopping_part::leader);
  auto run = [&] {
    const replay::stall_watch watch(again);
    return nodes::run(request_of(order, what), options, &launch::stop_on_signals(out));
  }();
  // A replay that stops at the end of the recording ends the run with an error.
  const bool ended_here = !again.difference().empty() || (again.is_complete() && !before.order.is_whole);
  if (!run && !ended_here) return run;
  const std::string digest = run ? run->weights_digest : "";
  std::string text = replay::description_of(again, before.order, digest);
  for (std::size_t at = 0; (at = text.find('\n', at)) != text.npos;)
    text.replace(at, 1, at + 1 < text.size() ? "; " : "");
  if (!replay::is_same(again, before.order, digest)) return run_fault("the replay is not the recorded run: {}", text);
  out.note(text);
  return run ? std::move(*run) : actors::run_summary{};
}

result<void> join(const program_order& order, const program_run& what, launch::console& out) {
  nodes::node_options offer = order.offer;
  offer.expected_job = what.settings;
  static_cast<nodes::machine_options&>(offer) = order.machine;
  offer.make_trainer = what.make_trainer;
  offer.on_note = [&out](const std::string& line) { out.note(line); };
  return launch::take_part(std::move(offer), order.tracing, false, out);
}

}  // namespace

actors::run_summary run_program(const program_order& order, const program_run& what) {
  launch::console out(false, order.quiet, order.name);
  if (order.part == program_part::leader) {
    auto run = order.replayed ? lead_again(order, what, out) : lead(order, what, out);
    if (!run)
      throw error(run.error().kind == fault_kind::input ? error_kind::input : error_kind::run,
                  with_source_names(run.error().message, order.own_options));
    return std::move(*run);
  }
  auto done = order.part == program_part::child
                  ? launch::play_role(order.child.role, order.child.rank, what.make_trainer, out, what.settings)
                  : join(order, what, out);
  if (!done) done.error().message = with_source_names(std::move(done.error().message), order.own_options);
  std::exit(out.finish(done ? launch::exit_done : out.error(done.error())));
}

namespace {

std::string* ending_program = nullptr;
std::terminate_handler handler_before = nullptr;

[[noreturn]] void end_by_error() {
  try {
    if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
  } catch (const error& e) {
    launch::console out(false, false, *ending_program);
    std::fflush(stdout);
    std::_Exit(out.error({e.kind() == error_kind::input ? fault_kind::input : fault_kind::run, e.what()}));
  } catch (const std::bad_alloc& lack) {
    launch::console out(false, false, *ending_program);
    std::fflush(stdout);
    std::_Exit(out.error({fault_kind::run, troupe::text_of(lack)}));
  } catch (...) {
  }
  handler_before();
  std::abort();
}

}  // namespace

void end_on_errors(const std::string& program) {
  static std::string name;
  name = program;
  if (std::exchange(ending_program, &name) == nullptr) handler_before = std::set_terminate(&end_by_error);
}

}  // namespace troupe::runtime
