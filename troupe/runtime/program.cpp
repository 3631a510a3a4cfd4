#include "troupe/runtime/program.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <type_traits>
#include <utility>

#include "base/advice.hpp"
#include "base/number.hpp"
#include "base/text.hpp"
#include "cluster/launch/arguments.hpp"
#include "cluster/launch/network_options.hpp"
#include "cluster/launch/option_table.hpp"
#include "cluster/launch/restarts.hpp"
#include "cluster/launch/text.hpp"
#include "cluster/nodes/trace_sources.hpp"
#include "troupe/error.hpp"

namespace troupe::runtime {

namespace {

using launch::given_text;
using launch::option_set;

constexpr std::uint32_t servers_max = 1024;
constexpr std::uint32_t count_max = 1024;

/// Options whose help differs from that of `troupe train`.
constexpr std::array program_text = {
    launch::given_options{"device", "cpu",
                          "what the trainers' modules compute on; auto is CUDA devices if there are any"},
    launch::given_options{"prepare", "those that are idle",
                          "threads of a process that make its trainers' batches ahead (trainer::prefetch), 0 to 1024"},
    launch::given_options{"resume", nullptr, "continue the run of the newest checkpoint in this folder"},
};

/// Options that a child gets from its leader in other ways.
constexpr std::array for_children = {"role", "rank"};

void add_program_options(CLI::App& app, std::span<const option> own) {
  for (const option& one : own)
    std::visit(
        [&](const auto* variable) {
          using value = std::remove_cvref_t<decltype(*variable)>;
          std::string meaning = one.meaning();
          if (one.range()) meaning += fmt::format(", {} to {}", one.range()->first, one.range()->second);
          if (!one.texts().empty()) meaning += fmt::format(": {}", fmt::join(one.texts(), ", "));
          if constexpr (std::is_same_v<value, bool>) {
            launch::add_switch(app, one.name(), meaning, "Program");
          } else {
            const char* kind = std::is_same_v<value, std::string> ? "TEXT" : std::is_same_v<value, double> ? "X" : "N";
            launch::add_text_option(app, one.name(), kind, fmt::format("{} (default: {})", meaning, *variable),
                                    "Program");
          }
        },
        one.sets());
}

void add_cluster_options(CLI::App& app) {
  launch::add_text_option(app, "servers", "N", "parameter servers (default: 1)", "Run");
  launch::add_text_option(app, "seed", "N", "the seed of all random numbers (default: 1)", "Run");
  for (const option_set set :
       {option_set::machine, option_set::batches, option_set::processes, option_set::checkpoints, option_set::restarts,
        option_set::trace, option_set::token, option_set::certificates, option_set::certificate_name,
        option_set::insecure, option_set::timeouts, option_set::process_tls})
    launch::add_options(app, set, std::nullopt, program_text);
  launch::add_text_option(app, "listen", "HOST:PORT", "lead a run whose members join from elsewhere", "Network");
  launch::add_text_option(app, "join", "HOST:PORT", "join the run that listens there", "Network");
  launch::add_text_option(app, "as", "server|trainer", "with --join: what this process is to be", "Network");
  launch::add_text_option(app, "count", "N", "with --join: how many of them (default: 1)", "Network");
  launch::add_text_option(app, "join-timeout", "SECONDS", "how long to try to reach the leader (default: 30)",
                          "Network");
  launch::add_text_option(app, "replay", "DIR", "do the recorded run in this folder again, and compare every message",
                          "Trace");
  launch::add_switch(app, "quiet", "no notes", "Output");
  for (const char* name : for_children) app.add_option(std::string("--") + name)->group("");
}

std::set<std::string> names_of(const CLI::App& app) {
  std::set<std::string> names;
  for (const CLI::Option* one : app.get_options()) names.insert(one->get_name());
  return names;
}

/// Refuses names of a program's own options that are invalid, or options of every cluster.
result<void> check_names(std::span<const option> own) {
  CLI::App of_cluster;
  add_cluster_options(of_cluster);
  std::set<std::string> seen;
  for (const option& one : own) {
    const std::string& name = one.name();
    const bool is_name = !name.empty() && std::islower(static_cast<unsigned char>(name.front())) != 0 &&
                         std::ranges::all_of(name, [](unsigned char c) {
                           return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '-';
                         });
    if (!is_name)
      return bad_input("option '{}': its name must be lower-case letters, digits and dashes, and begin with a letter",
                       printable(name));
    if (of_cluster.get_option_no_throw("--" + name) != nullptr)
      return bad_input("option '{}': every program with a cluster has --{}; choose another name", name, name);
    if (!seen.insert(name).second) return bad_input("option '{}': is there twice", name);
  }
  return {};
}

/// Returns the fault of an argument that the program does not have.
fault unknown(const CLI::App& app, const std::string& program, const std::string& argument) {
  if (!launch::is_option(argument))
    return {fault_kind::input, fmt::format("{}: unexpected argument '{}'", program, argument)};
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

/// Returns the text of an option as given; in a replay, as recorded.
std::optional<std::string> text_of(const CLI::App& app, const recorded_run* replayed, const std::string& name) {
  const std::string* recorded = replayed == nullptr ? nullptr : model::value_of(replayed->order.settings, name);
  return recorded == nullptr ? given_text(app, name) : *recorded;
}

template <class Number>
result<Number> read_whole(const std::optional<std::string>& text, const char* name, Number otherwise, Number least,
                          Number most) {
  if (!text) return otherwise;
  const auto number = parse_number<Number>(*text);
  if (!number || *number < least || *number > most)
    return bad_input("--{} {}: must be a whole number between {} and {}", name, printable(*text), least, most);
  return *number;
}

/// Reads a number of the program's own option.
template <class Number>
result<Number> read_number(const option& one, const std::string& text) {
  const auto number = parse_number<Number>(text);
  const auto& range = one.range();
  const auto fits = [&] {
    if constexpr (std::is_same_v<Number, double>)
      return *number >= static_cast<double>(range->first) && *number <= static_cast<double>(range->second);
    else
      return !std::cmp_less(*number, range->first) && !std::cmp_greater(*number, range->second);
  };
  if (number && (!range || fits())) return *number;
  const char* kind = std::is_same_v<Number, double> ? "number" : "whole number";
  if (range)
    return bad_input("--{} {}: must be a {} between {} and {}", one.name(), printable(text), kind, range->first,
                     range->second);
  return bad_input("--{} {}: must be a {}{}", one.name(), printable(text), kind,
                   std::is_same_v<Number, std::uint64_t> ? " of 0 or more" : "");
}

/// Sets a variable of the program; returns its value as text.
result<std::string> set(const CLI::App& app, const recorded_run* replayed, const option& one) {
  const auto text = text_of(app, replayed, one.name());
  return std::visit(
      [&](auto* variable) -> result<std::string> {
        using value = std::remove_pointer_t<decltype(variable)>;
        if constexpr (std::is_same_v<value, bool>) {
          *variable = *variable || app.get_option("--" + one.name())->count() > 0 || text == "true";
        } else if constexpr (std::is_same_v<value, std::string>) {
          if (text) *variable = *text;
          if (!one.texts().empty() && std::ranges::find(one.texts(), *variable) == one.texts().end())
            return bad_input("--{} {}: must be one of {}", one.name(), printable(*variable),
                             fmt::join(one.texts(), ", "));
        } else if (text) {
          TROUPE_SET(*variable, read_number<value>(one, *text));
        }
        return fmt::format("{}", *variable);
      },
      one.sets());
}

/// Refuses options that belong to another role than the chosen one.
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
    if (auto wrong = refuse({"listen", "page", "save", "checkpoint-every", "checkpoint-seconds", "mtbf",
                             "checkpoint-memory", "resume", "restarts", "rejoin-timeout"},
                            "is for the process that leads the run");
        !wrong)
      return wrong;
  if (!joins)
    if (auto wrong = refuse({"as", "count", "join-timeout", "tls-name"}, "goes with --join HOST:PORT"); !wrong)
      return wrong;
  if (joins && !order.offer.trains)
    if (auto wrong = refuse({"prepare"}, "is for trainers, and this process joins as a server; leave it out"); !wrong)
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
    return refuse({"device", "devices", "server-device", "prepare"},
                  "the leader computes nothing; give it to the processes that join");
  return {};
}

result<void> read_offer(const CLI::App& app, const std::string& where, program_order& order) {
  order.part = program_part::member;
  TROUPE_SET(order.offer.master, launch::read_endpoint("--join", where));
  const auto role = given_text(app, "as");
  if (role != "server" && role != "trainer")
    return bad_input("--as {}: must be server or trainer", printable(role.value_or("")));
  order.offer.trains = role == "trainer";
  TROUPE_SET(order.offer.count, read_whole<std::uint32_t>(given_text(app, "count"), "count", 1, 1, count_max));
  TROUPE_SET(order.offer.join_timeout, launch::read_seconds(app, "join-timeout", order.offer.join_timeout, 0, 86'400));
  return {};
}

/// Reads the recording to replay.
result<void> read_recorded(const CLI::App& app, const std::string& folder, program_order& order) {
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_name();
    if (option->count() > 0 && name != "--replay" && name != "--threads" && name != "--quiet")
      return bad_input("{}: does not go with --replay, which does a recorded run again as it was", name);
  }
  auto read = trace::read_recording(nodes::trace_sources({folder}, 0));
  if (!read) return bad_input("{}", launch::about_folder("--replay", folder, one_line(read.error().message)));
  auto made = std::make_shared<recorded_run>();
  made->recorded = std::move(*read);
  auto replayed = replay::read_replay_order(made->recorded);
  if (!replayed) return bad_input("--replay {}: {}", printable_path(folder), one_line(replayed.error().message));
  made->order = std::move(*replayed);
  if (made->order.program != order.name)
    return bad_input("--replay {}: the run was one of {}, this is {}", printable_path(folder),
                     made->order.program.empty() ? "'troupe train'" : made->order.program, order.name);
  order.replayed = std::move(made);
  return {};
}

result<void> fill(program_order& order, const CLI::App& app, std::span<const option> own, launch::console& out) {
  if (const auto folder = given_text(app, "replay"))
    if (auto read = read_recorded(app, *folder, order); !read) return read;
  const recorded_run* replayed = order.replayed.get();
  TROUPE_SET(order.servers, read_whole<std::uint32_t>(text_of(app, replayed, "servers"), "servers", 1, 1, servers_max));
  TROUPE_SET(order.seed, read_whole<std::uint64_t>(text_of(app, replayed, "seed"), "seed", 1, 0, UINT64_MAX));
  order.settings = {{"seed", std::to_string(order.seed)}};
  order.settings_given = {fmt::format("--seed={}", order.seed)};
  for (const option& one : own) {
    TROUPE_TRY(text, set(app, replayed, one));
    if (!std::holds_alternative<bool*>(one.sets()))
      order.settings_given.push_back(fmt::format("--{}={}", one.name(), text));
    else if (text == "true")
      order.settings_given.push_back("--" + one.name());
    order.settings.emplace_back(one.name(), std::move(text));
    order.own_options.push_back(one.name());
    if (one.may_change()) order.free_on_resume.push_back(one.name());
  }
  order.quiet = app.get_option("--quiet")->count() > 0;
  if (auto role = given_text(app, "role")) {
    order.part = program_part::child;
    order.child.role = *role;
    order.child.rank = given_text(app, "rank").value_or("");
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
  if (order.part == program_part::leader && !order.replayed)
    if (auto supervised = launch::supervise_if_wanted(given, out); !supervised) return supervised;
  TROUPE_SET(order.rejoin_timeout, launch::read_rejoin_timeout(given));
  TROUPE_SET(order.machine, launch::read_machine_options([&](const char* name) -> std::optional<std::string> {
               const std::string_view option = name;
               if (order.listen && (option == "device" || option == "server-device")) return "cpu";
               const auto text = launch::option_text(given, name);
               return option == "device" ? text.value_or("cpu") : text;
             }));
  TROUPE_SET(order.tracing, launch::read_trace_options(given));
  TROUPE_SET(order.checkpoints, launch::read_checkpoint_options(given));
  order.network_options_given = launch::given_network_options(app);
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
  if (auto fits = check_names(own); !fits) throw error(error_kind::input, fits.error().message);
  add_program_options(app, own);
  add_cluster_options(app);
  advise_options([known = names_of(app)](const std::string& name) { return known.contains(name); });
  launch::console out(false, false, order.name);
  auto read = parse(app, order.name, argc, argv);
  if (read) read = fill(order, app, own, out);
  if (!read) throw error(error_kind::input, read.error().message);
  return order;
}

}  // namespace troupe::runtime
