// `troupe status`, `troupe stop` and `troupe scale`, which connect to a running master.

#include <fmt/format.h>

#include <array>
#include <vector>

#include "apps/aligned.hpp"
#include "apps/subcommand.hpp"
#include "base/json_text.hpp"
#include "base/mapped.hpp"
#include "base/number.hpp"
#include "base/text.hpp"
#include "base/units.hpp"
#include "cluster/launch/network_options.hpp"
#include "cluster/nodes/client.hpp"
#include "protocol/status.hpp"

namespace troupe::apps {
namespace {

/// As in `trainer 0 waits for rows of step 812 from server 1`.
std::string description(const msg::wait_status& wait) {
  const std::string of = wait.step > 0 ? fmt::format(" of step {}", wait.step) : "";
  const std::string from = wait.on.empty() ? "" : fmt::format(" from {}", wait.on);
  const std::string who = wait.who.empty() ? "waiting" : wait.who + " waits";
  return one_line(fmt::format("{} for {}{}{}", who, wait.what, of, from));
}

/// As in `lookups parked: 3`.
std::string description(const msg::queue_status& queue) {
  return one_line(fmt::format("{}: {}", queue.name, count_text(queue.messages)));
}

const msg::node_status* home_of(const msg::run_status& now, const std::string& actor) {
  for (const msg::node_status& node : now.nodes)
    for (const std::uint32_t rank : node.ranks)
      if (actor == fmt::format("{} {}", node.trains ? "trainer" : "server", rank)) return &node;
  return nullptr;
}

using table_row = std::array<std::string, 7>;

std::string members_table(const msg::run_status& now) {
  std::vector<table_row> rows = {{"member", "host", "pid", "name", "phase", "step", "queued"}};
  for (const msg::actor_status& one : now.actors) {
    const msg::node_status* home = home_of(now, one.name);
    const auto queues = mapped(one.queues, [](const msg::queue_status& queue) { return description(queue); });
    rows.push_back({one_line(one.name), home ? one_line(home->host) : "-", home ? std::to_string(home->pid) : "-",
                    home && !home->name.empty() ? one_line(home->name) : "-", one_line(one.phase), count_text(one.step),
                    queues.empty() ? "-" : fmt::format("{}", fmt::join(queues, ", "))});
  }
  return rows.size() > 1 ? aligned(rows) : "";
}

std::string links_text(const msg::run_status& now) {
  std::string text;
  for (const msg::node_status& node : now.nodes)
    for (const msg::queue_status& link : node.links)
      text += one_line(fmt::format("{} {} to {}: {} bytes not sent, {} messages wait for credit",
                                   node.trains ? "trainer" : "server", fmt::join(node.ranks, ", "), link.name,
                                   count_text(link.bytes), count_text(link.messages))) +
              "\n";
  return text;
}

std::string waits_text(const msg::run_status& now) {
  std::string text;
  for (const msg::actor_status& one : now.actors)
    if (one.phase == "computing" || one.phase == "gone") text += one_line(one.name + " is " + one.phase) + "\n";
  for (const msg::wait_status& wait : now.waits) text += description(wait) + "\n";
  return text;
}

template <class Things, class ToJson>
std::string json_array(const Things& things, ToJson to_json) {
  return fmt::format("[{}]", fmt::join(mapped(things, to_json), ","));
}

std::string json(const msg::queue_status& queue) {
  return fmt::format(R"({{"name":{},"messages":{},"bytes":{}}})", json_string(queue.name), queue.messages, queue.bytes);
}

std::string json(const msg::wait_status& wait) {
  return fmt::format(R"({{"who":{},"what":{},"step":{},"on":{}}})", json_string(wait.who), json_string(wait.what),
                     wait.step, json_string(wait.on));
}

std::string json(const msg::node_status& node) {
  return fmt::format(R"({{"role":"{}","ranks":[{}],"host":{},"pid":{},"name":{},"links":{}}})",
                     node.trains ? "trainer" : "server", fmt::join(node.ranks, ","), json_string(node.host), node.pid,
                     json_string(node.name),
                     json_array(node.links, [](const msg::queue_status& link) { return json(link); }));
}

std::string json(const msg::actor_status& one) {
  return fmt::format(R"({{"name":{},"phase":{},"step":{},"queues":{}}})", json_string(one.name), json_string(one.phase),
                     one.step, json_array(one.queues, [](const msg::queue_status& queue) { return json(queue); }));
}

/// Returns figures, a table of servers and trainers, and a line for each wait.
std::string status_text(const msg::run_status& now) {
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<15} {}\n", name, value);
  };
  line("phase", one_line(now.phase));
  line("step", now.total_steps > 0 ? fmt::format("{} of {}", count_text(now.step), count_text(now.total_steps))
                                   : count_text(now.step));
  if (now.samples_per_s && *now.samples_per_s > 0)  // programs count steps only
    line("samples/s", compact(*now.samples_per_s));
  if (now.steps_per_s) line("steps/s", compact(*now.steps_per_s));
  if (now.progress_age_s) line("as of", duration_text(*now.progress_age_s) + " ago");
  if (now.attempt > 1) line("attempt", fmt::format("{}; lost before: {}", now.attempt, one_line(now.lost)));
  if (!now.diagnosis.empty()) line("diagnosis", one_line(now.diagnosis));
  for (const std::string& part : {members_table(now), links_text(now), waits_text(now)})
    if (!part.empty()) text += fmt::format("\n{}", part);
  return text;
}

/// Returns the same as an event (docs/run-many-hosts.md).
std::string status_event(const msg::run_status& now) {
  json_line line("status");
  line.add("phase", now.phase).add("step", now.step).add("total_steps", now.total_steps);
  line.add("samples_per_s", now.samples_per_s).add("steps_per_s", now.steps_per_s);
  line.add("progress_age_s", now.progress_age_s);
  line.add("servers", std::uint64_t{now.servers}).add("trainers", std::uint64_t{now.trainers});
  line.add_json("nodes", json_array(now.nodes, [](const msg::node_status& node) { return json(node); }));
  line.add_json("actors", json_array(now.actors, [](const msg::actor_status& one) { return json(one); }));
  line.add("attempt", now.attempt);
  if (now.attempt > 1) line.add("lost", one_line(now.lost));
  if (!now.diagnosis.empty()) line.add("diagnosis", one_line(now.diagnosis));
  line.add_json("waits", json_array(now.waits, [](const msg::wait_status& wait) { return json(wait); }));
  return line.take();
}

/// Makes a subcommand with HOST:PORT, --timeout, the network options and --json.
subcommand add_client(CLI::App& program, const char* name, const char* meaning, const char* footer,
                      result<int> (*run)(const CLI::App&, const program_context&)) {
  CLI::App* app = program.add_subcommand(name, meaning);
  app->add_option("HOST:PORT")->description("where the master listens");
  add_text_option(*app, "timeout", "SECONDS", "how long the master may take to answer (default: 5)", "Network");
  add_network_options(*app, true);
  add_switch(*app, "json", "the result as a JSON object on one line", "Output");
  app->footer(footer);
  return {app, "HOST:PORT is all it takes", run};
}

result<nodes::client_options> read_client_options(const CLI::App& app, console& out) {
  const CLI::Option* master = app.get_option("HOST:PORT");
  if (master->count() == 0) return bad_input("HOST:PORT is missing: where the master listens");
  nodes::client_options options;
  TROUPE_SET(options.master, read_endpoint("HOST:PORT", master->results().front()));
  TROUPE_SET(options.network, read_network_options(app, out));
  // The master waits a second for its members' status.
  TROUPE_SET(options.timeout, read_seconds(app, "timeout", options.timeout, 1.5, 86'400));
  return options;
}

result<int> show_status(const CLI::App& app, const program_context& context) {
  TROUPE_TRY(options, read_client_options(app, context.out));
  TROUPE_TRY(now, nodes::ask_status(options));
  context.out.result(context.out.json() ? status_event(now) : status_text(now));
  return exit_done;
}

result<int> stop_run(const CLI::App& app, const program_context& context) {
  TROUPE_TRY(options, read_client_options(app, context.out));
  TROUPE_DO(nodes::ask_stop(options));
  const std::string master = links::to_string(options.master);
  context.out.result(context.out.json() ? json_line("stop").add("master", master).take()
                                        : fmt::format("master {}: the run ends after the step under way\n", master));
  return exit_done;
}

result<int> scale_run(const CLI::App& app, const program_context& context) {
  constexpr std::uint32_t trainers_max = 1024;
  const auto text = given_text(app, "trainers");
  if (!text) return bad_input("--trainers N is missing: how many the run is to continue with");
  const auto trainers = parse_number<std::uint32_t>(*text);
  if (!trainers || *trainers == 0 || *trainers > trainers_max)
    return bad_input("--trainers {}: must be a whole number between 1 and {}", printable(*text), trainers_max);
  TROUPE_TRY(options, read_client_options(app, context.out));
  TROUPE_DO(nodes::ask_scale(options, *trainers));
  const std::string master = links::to_string(options.master);
  context.out.result(context.out.json()
                         ? json_line("scale").add("master", master).add("trainers", std::uint64_t{*trainers}).take()
                         : fmt::format("master {}: the run continues with {} trainer{} after the step under way\n",
                                       master, *trainers, *trainers == 1 ? "" : "s"));
  return exit_done;
}

}  // namespace

subcommand add_scale(CLI::App& program) {
  subcommand made =
      add_client(program, "scale", "continue an elastic run with another number of trainers",
                 "New trainers come by troupe join, or with --processes by themselves; those that do not\n"
                 "come within --rejoin-timeout are hosted by the others.\n"
                 "Exit codes: 0 the master continues with so many; 1 it cannot be reached, refuses or does\n"
                 "not answer; 2 an option or a file is wrong.",
                 scale_run);
  add_text_option(*made.app, "trainers", "N", "how many trainers the run is to have", "Run");
  return made;
}

subcommand add_status(CLI::App& program) {
  return add_client(program, "status", "show how a run is, and which actors wait on which",
                    "Exit codes: 0 done; 1 the master cannot be reached, refuses or does not answer;\n"
                    "2 an option or a file is wrong.",
                    show_status);
}

subcommand add_stop(CLI::App& program) {
  return add_client(program, "stop", "have a run finish its step, save if it saves, and end",
                    "Exit codes: 0 the master ends the run; 1 it cannot be reached, refuses or does not\n"
                    "answer; 2 an option or a file is wrong.",
                    stop_run);
}

}  // namespace troupe::apps
