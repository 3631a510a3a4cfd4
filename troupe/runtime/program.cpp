#include "troupe/runtime/program.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <type_traits>
#include <utility>

#include "base/number.hpp"
#include "base/text.hpp"
#include "launch/arguments.hpp"
#include "launch/network_options.hpp"
#include "launch/option_table.hpp"
#include "launch/processes.hpp"
#include "launch/signals.hpp"
#include "launch/text.hpp"
#include "troupe/error.hpp"

namespace troupe::runtime {

namespace {

using launch::given_text;
using launch::option_set;

constexpr std::uint32_t servers_max = 1024;
constexpr std::uint32_t count_max = 1024;

/// Options that a child gets from its leader by other ways.
constexpr std::array for_children = {"role", "rank"};

void add_program_options(CLI::App& app, std::span<const option> own) {
  for (const option& one : own) {
    if (const auto* const* text = std::get_if<std::string*>(&one.sets()))
      launch::add_text_option(app, one.name(), "TEXT", fmt::format("{} (default: {})", one.meaning(), **text),
                              "Program");
    else if (const auto* const* whole = std::get_if<std::int64_t*>(&one.sets()))
      launch::add_text_option(app, one.name(), "N", fmt::format("{} (default: {})", one.meaning(), **whole), "Program");
    else if (const auto* const* number = std::get_if<double*>(&one.sets()))
      launch::add_text_option(app, one.name(), "X", fmt::format("{} (default: {})", one.meaning(), **number),
                              "Program");
    else
      launch::add_switch(app, one.name(), one.meaning(), "Program");
  }
}

void add_cluster_options(CLI::App& app) {
  launch::add_text_option(app, "servers", "N", "parameter servers (default: 1)", "Run");
  launch::add_text_option(app, "seed", "N", "the seed of all random numbers (default: 1)", "Run");
  for (const option_set set : {option_set::machine, option_set::processes, option_set::checkpoints, option_set::trace,
                               option_set::token, option_set::certificates, option_set::certificate_name,
                               option_set::insecure, option_set::timeouts, option_set::process_tls})
    launch::add_options(app, set);
  launch::add_text_option(app, "listen", "HOST:PORT", "lead a run whose members join from elsewhere", "Network");
  launch::add_text_option(app, "join", "HOST:PORT", "join the run that listens there", "Network");
  launch::add_text_option(app, "as", "server|trainer", "with --join: what this process is to be", "Network");
  launch::add_text_option(app, "count", "N", "with --join: how many of them (default: 1)", "Network");
  launch::add_text_option(app, "join-timeout", "SECONDS", "how long to try to reach the leader (default: 30)",
                          "Network");
  launch::add_switch(app, "quiet", "no notes", "Output");
  for (const char* name : for_children) app.add_option(std::string("--") + name)->group("");
}

/// Returns what is wrong with an argument that the program does not have.
fault unknown(const CLI::App& app, const std::string& program, const std::string& argument) {
  if (!launch::is_option(argument))
    return {fault_kind::input, fmt::format("{} has no use for '{}'", program, argument)};
  const std::string name = launch::option_name(argument);
  const auto& settings = model::job_settings();
  if (std::ranges::any_of(settings, [&](const model::setting_info& one) { return "--" + one.name == name; }))
    return {fault_kind::input, fmt::format("{} has no option {}: it is one of 'troupe train'; what this program "
                                           "computes is in the program, and it may declare an option of that name",
                                           program, name)};
  return {fault_kind::input, fmt::format("{} has no option {}; the nearest is {} (see '{} --help')", program, name,
                                         launch::nearest_option(name, app), program)};
}

/// Parses the arguments to texts. Ends the program after --help.
result<void> parse(CLI::App& app, const std::string& program, int argc, char** argv) {
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  std::vector<std::string> reversed = launch::with_empty_values(arguments);
  std::reverse(reversed.begin(), reversed.end());  // the order that CLI11 requires
  std::optional<std::string> failure;
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::Success&) {
    launch::console out(false, false, program);
    out.result(CLI::detail::find_and_replace(app.help(), "\n\n\n", "\n\n"));
    std::exit(out.finish(launch::exit_done));
  } catch (const CLI::ParseError& wrong) {
    failure = wrong.what();
  }
  if (auto misused = launch::misused_option(app)) return tl::unexpected(std::move(*misused));
  if (auto misplaced = launch::misplaced_value(app, arguments, failure.has_value()))
    return tl::unexpected(std::move(*misplaced));
  if (const auto extra = launch::first_extra(app)) return tl::unexpected(unknown(app, program, *extra));
  if (failure) return bad_input(std::move(*failure));
  return {};
}

template <class Number>
result<Number> read_whole(const CLI::App& app, const char* name, Number otherwise, Number least, Number most) {
  const auto text = given_text(app, name);
  if (!text) return otherwise;
  const auto number = parse_number<Number>(*text);
  if (!number || *number < least || *number > most)
    return bad_input("--{} {}: must be a whole number between {} and {}", name, printable(*text), least, most);
  return *number;
}

/// Sets a variable of the program; returns its value as text.
result<std::string> set(const CLI::App& app, const option& one) {
  const auto text = given_text(app, one.name());
  return std::visit(
      [&](auto* variable) -> result<std::string> {
        using value = std::remove_pointer_t<decltype(variable)>;
        if constexpr (std::is_same_v<value, bool>) {
          *variable = *variable || app.get_option("--" + one.name())->count() > 0;
        } else if constexpr (std::is_same_v<value, std::string>) {
          if (text) *variable = *text;
        } else if (text) {
          const auto number = parse_number<value>(*text);
          if (!number)
            return bad_input("--{} {}: must be a {}", one.name(), printable(*text),
                             std::is_same_v<value, double> ? "number" : "whole number");
          *variable = *number;
        }
        return fmt::format("{}", *variable);
      },
      one.sets());
}

/// Refuses options of another part than the chosen one.
result<void> check_part(const CLI::App& app, const program_order& order) {
  const auto refuse = [&](std::initializer_list<const char*> names, const char* why) -> result<void> {
    for (const char* name : names)
      if (app.get_option(std::string("--") + name)->count() > 0) return bad_input("--{}: {}", name, why);
    return {};
  };
  const bool joins = order.part == program_part::member;
  const bool has_links = order.processes || order.listen || joins;
  if (joins || order.listen)
    if (auto wrong = refuse({"processes"}, "is for a run on this machine alone"); !wrong) return wrong;
  if (joins)
    if (auto wrong =
            refuse({"listen", "page", "save", "checkpoint-every", "resume"}, "is for the process that leads the run");
        !wrong)
      return wrong;
  if (!joins)
    if (auto wrong = refuse({"as", "count", "join-timeout", "tls-name"}, "goes with --join HOST:PORT"); !wrong)
      return wrong;
  if (!order.processes)
    if (auto wrong = refuse({"tls"}, "is for runs with --processes"); !wrong) return wrong;
  if (!has_links)
    if (auto wrong =
            refuse({"dead-after", "request-timeout", "token-file"}, "is for runs with --processes, --listen or --join");
        !wrong)
      return wrong;
  if (!order.listen && !joins)
    if (auto wrong = refuse({"tls-cert", "tls-key", "tls-ca", "insecure"}, "is for runs with --listen or --join");
        !wrong)
      return wrong;
  if (order.listen)
    return refuse({"device", "devices", "server-device"}, "the leader computes nothing; give it to those who join");
  return {};
}

result<void> read_offer(const CLI::App& app, const std::string& where, program_order& order) {
  order.part = program_part::member;
  TROUPE_SET(order.offer.master, launch::read_endpoint("--join", where));
  const auto role = given_text(app, "as");
  if (role != "server" && role != "trainer")
    return bad_input("--as {}: must be server or trainer", printable(role.value_or("")));
  order.offer.trains = role == "trainer";
  TROUPE_SET(order.offer.count, read_whole<std::uint32_t>(app, "count", 1, 1, count_max));
  TROUPE_SET(order.offer.join_timeout, launch::read_seconds(app, "join-timeout", order.offer.join_timeout, 0, 86'400));
  return {};
}

result<void> fill(program_order& order, const CLI::App& app, std::span<const option> own, launch::console& out) {
  TROUPE_SET(order.servers, read_whole<std::uint32_t>(app, "servers", 1, 1, servers_max));
  TROUPE_SET(order.seed, read_whole<std::uint64_t>(app, "seed", 1, 0, UINT64_MAX));
  order.settings = {{"seed", std::to_string(order.seed)}};
  for (const option& one : own) {
    TROUPE_TRY(text, set(app, one));
    order.settings.emplace_back(one.name(), std::move(text));
  }
  order.quiet = app.get_option("--quiet")->count() > 0;
  if (auto role = given_text(app, "role")) {
    order.part = program_part::child;
    order.role = *role;
    order.rank = given_text(app, "rank").value_or("");
    return {};
  }
  order.processes = app.get_option("--processes")->count() > 0;
  order.tls = app.get_option("--tls")->count() > 0;
  if (const auto where = given_text(app, "listen")) TROUPE_SET(order.listen, launch::read_endpoint("--listen", *where));
  if (const auto where = given_text(app, "join"))
    if (auto read = read_offer(app, *where, order); !read) return read;
  if (auto fits = check_part(app, order); !fits) return fits;
  std::vector<model::setting> given;
  for (const model::setting_info& one : launch::run_settings())
    if (const auto* added = app.get_option_no_throw("--" + one.name); added != nullptr && added->count() > 0)
      given.emplace_back(one.name,
                         one.name == "page" && added->results().front().empty() ? "0" : added->results().front());
  TROUPE_SET(order.machine, launch::read_machine_options([&](const char* name) -> std::optional<std::string> {
               if (order.listen && std::string_view(name) != "threads") return "cpu";
               return launch::option_text(given, name);
             }));
  TROUPE_SET(order.tracing, launch::read_trace_options(given));
  TROUPE_SET(order.checkpoints, launch::read_checkpoint_options(given));
  order.network_words = launch::given_network_options(app);
  if (order.listen || order.part == program_part::member) {
    TROUPE_SET(order.network, launch::read_network_options(app, out));
    if (order.part == program_part::member) order.offer.network = order.network;
    return {};
  }
  if (auto read = launch::read_timeouts(app, order.network); !read) return read;
  return order.processes ? launch::read_own_token(app, order.network, out) : result<void>();
}

}  // namespace

std::string program_name(int argc, char** argv) {
  return argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "program";
}

program_order read_program(int argc, char** argv, std::span<const option> own) {
  program_order order;
  order.name = program_name(argc, argv);
  CLI::App app("", order.name);
  app.get_formatter()->column_width(30);
  app.allow_extras();
  app.set_help_flag("-h,--help", "this help");
  add_program_options(app, own);
  add_cluster_options(app);
  launch::console out(false, false, order.name);
  auto read = parse(app, order.name, argc, argv);
  if (read) read = fill(order, app, own, out);
  if (!read) throw error(error_kind::input, read.error().message);
  return order;
}

// -- running --------------------------------------------------------------------------

namespace {

/// A child's command line, before its role: what makes its main do as this one's.
std::vector<std::string> command_of(const program_order& order) {
  std::vector<std::string> words = {order.name, "--servers", std::to_string(order.servers)};
  for (const auto& [name, text] : order.settings) {
    if (text == "false") continue;
    words.push_back("--" + name);
    if (text != "true") words.back() += "=" + text;
  }
  return words;
}

/// Returns how to go on after a run that was lost.
std::string resume_words(const program_order& order, const std::string& how) {
  std::string command = order.name + " " + how + order.network_words;
  for (const auto& [name, text] : order.settings) command += fmt::format(" --{}={}", name, launch::shell_word(text));
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
                                                     .resume = resume_words(order, "--processes")});
    if (!gather) throw error(error_kind::run, gather.error().message);
    options.gather = std::move(*gather);
  } else if (order.listen) {
    options.gather.emplace();
    options.gather->listen = *order.listen;
    options.gather->network = order.network;
    options.gather->resume = resume_words(order, "--listen " + links::to_string(*order.listen));
    options.gather->on_listening = [&](const links::endpoint& where) {
      out.note(fmt::format("listening on {} for {} server{} and {} trainer{}", links::to_string(where), order.servers,
                           order.servers == 1 ? "" : "s", what.trainers, what.trainers == 1 ? "" : "s"));
    };
  }
}

result<actors::run_summary> lead(program_order order, const program_run& what, launch::console& out) {
  if (auto enough = nodes::check_threads(order.machine.threads); !enough) return tl::unexpected(enough.error());
  if (order.processes)
    if (auto given = launch::give_to_processes(order.machine, what.trainers, out); !given)
      return tl::unexpected(given.error());
  nodes::run_options options;
  options.threads = order.machine.threads;
  options.devices = order.machine.devices;
  options.observer.on_note = [&out](const std::string& line) { out.note(line); };
  options.watch.on_diagnosis = [&out](const std::string& line) { out.tell(line); };
  options.watch.wanted = launch::diagnosis_wanted;
  options.watch.step_timeout = order.tracing.step_timeout;
  options.observer.on_checkpoint = [&out](const actors::checkpoint_summary& now) {
    if (now.problem)
      out.error({fault_kind::run,
                 fmt::format("no checkpoint of step {}: {}; training goes on", now.step, now.problem->message)});
  };
  TROUPE_SET(options.checkpoints, launch::open_checkpoints(order.checkpoints));
  if (order.checkpoints.resume)
    for (const std::string& line : order.checkpoints.resume->warnings) out.warning(line);
  TROUPE_TRY(traced, launch::run_trace::start(order.tracing, out));
  options.recorder = traced.recorder();
  launch::role_processes children;
  fill_gather(options, order, children, what, traced.recorder() != nullptr, out);
  auto run = nodes::run({.servers = order.servers,
                         .trainers = what.trainers,
                         .settings = what.settings,
                         .plan = what.plan,
                         .make_trainer = what.make_trainer},
                        options, &launch::stop_on_signals());
  for (const std::string& line : children.finish(run ? launch::seen_off_after : launch::let_go_after)) out.note(line);
  traced.finish(run.has_value() || run.error().kind == fault_kind::input, out);
  return run;
}

result<void> join(const program_order& order, const program_run& what, launch::console& out) {
  nodes::node_options offer = order.offer;
  offer.expected_job = what.settings;
  offer.threads = order.machine.threads;
  offer.devices = order.machine.devices;
  offer.make_trainer = what.make_trainer;
  offer.on_note = [&out](const std::string& line) { out.note(line); };
  launch::trace_order tracing = order.tracing;
  TROUPE_TRY(traced, launch::run_trace::start(tracing, out));
  offer.recorder = traced.recorder();
  offer.watch.step_timeout = tracing.step_timeout;
  offer.watch.wanted = launch::diagnosis_wanted;
  auto done = nodes::run_node(offer, &launch::stop_on_signals());
  traced.finish(done.has_value() || done.error().kind == fault_kind::input, out);
  return done;
}

}  // namespace

actors::run_summary run_program(const program_order& order, const program_run& what) {
  launch::console out(false, order.quiet, order.name);
  if (order.part == program_part::leader) {
    auto run = lead(order, what, out);
    if (!run)
      throw error(run.error().kind == fault_kind::input ? error_kind::input : error_kind::run, run.error().message);
    return std::move(*run);
  }
  const auto done = order.part == program_part::child
                        ? launch::play_role(order.role, order.rank, what.make_trainer, out)
                        : join(order, what, out);
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
