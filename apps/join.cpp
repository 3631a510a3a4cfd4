// `troupe join`: joins a run as servers or trainers.

#include "apps/subcommand.hpp"
#include "apps/train_options.hpp"
#include "base/number.hpp"
#include "base/result.hpp"
#include "base/text.hpp"
#include "cluster/launch/network_options.hpp"
#include "cluster/launch/option_table.hpp"
#include "cluster/launch/rejoin.hpp"
#include "cluster/nodes/node.hpp"
#include "cluster/nodes/thread_memory.hpp"

namespace troupe::apps {
namespace {

constexpr std::uint32_t count_max = 1024;
constexpr std::size_t name_bytes_max = 64;

/// Parses `HOST` or `HOST:PORT`.
result<std::optional<links::endpoint>> read_advertise(const CLI::App& app) {
  const auto text = given_text(app, "advertise");
  if (!text) return std::nullopt;
  if (auto where = links::parse_endpoint(*text)) return where;
  if (auto host = links::parse_endpoint(*text + ":0")) return host;
  return bad_input("--advertise {}: must be HOST or HOST:PORT", printable(*text));
}

/// Reads what this process offers to the master.
result<void> read_offer(const CLI::App& app, nodes::node_options& options) {
  const auto role = given_text(app, "as");
  if (role != "server" && role != "trainer")
    return bad_input("--as {}: must be server or trainer", printable(role.value_or("")));
  options.trains = role == "trainer";
  if (const auto text = given_text(app, "count")) {
    const auto count = parse_number<std::uint32_t>(*text);
    if (!count || *count == 0 || *count > count_max)
      return bad_input("--count {}: must be a whole number between 1 and {}", printable(*text), count_max);
    options.count = *count;
  }
  options.name = given_text(app, "name").value_or("");
  if (options.name.size() > name_bytes_max || one_line(options.name) != options.name)
    return bad_input("--name {}: must be one line of at most {} bytes", printable(options.name), name_bytes_max);
  TROUPE_SET(options.expected_job, read_expected_job(app));
  return {};
}

result<nodes::node_options> read_options(const CLI::App& app, const machine_options& machine,
                                         const program_context& context) {
  const CLI::Option* master = app.get_option("HOST:PORT");
  if (master->count() == 0) return bad_input("HOST:PORT is missing: where the master listens");
  nodes::node_options options;
  TROUPE_SET(options.master, read_endpoint("HOST:PORT", master->results().front()));
  TROUPE_DO(read_offer(app, options));
  TROUPE_SET(options.advertise, read_advertise(app));
  TROUPE_SET(options.network, read_network_options(app, context.out));
  TROUPE_SET(options.join_timeout, read_seconds(app, "join-timeout", options.join_timeout, 0, 86'400));
  if (options.trains && given_text(app, "server-device"))
    return bad_input("--server-device is for servers, and this process joins as a trainer; leave it out");
  if (!options.trains && given_text(app, "prepare"))
    return bad_input("--prepare is for trainers, and this process joins as a server; leave it out");
  static_cast<machine_options&>(options) = machine;
  if (!context.out.quiet()) options.on_note = [&out = context.out](const std::string& line) { out.note(line); };
  if (options.on_note && !options.devices.reason.empty()) options.on_note(actors::describe(options.devices, 0, 0));
  return options;
}

result<int> join(const CLI::App& app, const program_context& context) {
  TROUPE_TRY(mine, read_own_options(app));
  TROUPE_TRY(options, read_options(app, mine.machine, context));
  if (options.trains && !options.devices.trainers) TROUPE_DO(nodes::prepare_products(options.threads, 0));
  TROUPE_DO(take_part(std::move(options), mine.traced, false, context.out));
  return exit_done;
}

}  // namespace

subcommand add_join(CLI::App& program) {
  CLI::App* app = program.add_subcommand("join", "take part in a run as a server or trainer");
  app->add_option("HOST:PORT")->description("where the master listens");
  app->add_option("JOB.toml")->description("the job that is expected: another one is refused");
  add_text_option(*app, "as", "server|trainer", "what this process is to be", "Job");
  add_text_option(*app, "count", "N", "how many of them (default: 1)", "Job");
  add_text_option(*app, "name", "NAME", "a name that no other process of the run may have", "Job");
  add_options(*app, option_set::machine);
  add_options(*app, option_set::batches);
  add_text_option(*app, "advertise", "HOST[:PORT]",
                  "where others reach this process (default: the address that its connection to the master has)",
                  "Network");
  add_text_option(*app, "join-timeout", "SECONDS", "how long to try to reach the master (default: 30)", "Network");
  add_network_options(*app, true);
  add_options(*app, option_set::trace);
  add_switch(*app, "json", "errors as JSON objects on stdout too", "Output");
  add_switch(*app, "quiet", "no notes", "Output");
  app->footer(
      "Exit codes: 0 the run is done, or was stopped; 1 it failed, or cannot be joined; 2 an\n"
      "option or a file is wrong or does not suit the run; 130 second Ctrl-C.");

  return {app, "HOST:PORT and perhaps JOB.toml is all it takes", join};
}

}  // namespace troupe::apps
