// `troupe status` and `troupe stop`, which connect to a running master.

#include <fmt/format.h>

#include "apps/network_options.hpp"
#include "apps/status_report.hpp"
#include "apps/subcommand.hpp"
#include "base/json_text.hpp"
#include "cluster/client.hpp"

namespace troupe::apps {
namespace {

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

result<cluster::client_options> read_client_options(const CLI::App& app, console& out) {
  const CLI::Option* master = app.get_option("HOST:PORT");
  if (master->count() == 0) return bad_input("HOST:PORT is missing: where the master listens");
  cluster::client_options options;
  TROUPE_SET(options.master, read_endpoint("HOST:PORT", master->results().front()));
  TROUPE_SET(options.network, read_network_options(app, out));
  // The master waits a second for its members' status.
  TROUPE_SET(options.timeout, read_seconds(app, "timeout", options.timeout, 1.5, 86'400));
  return options;
}

result<int> show_status(const CLI::App& app, const program_context& context) {
  TROUPE_TRY(options, read_client_options(app, context.out));
  TROUPE_TRY(now, cluster::ask_status(options));
  context.out.result(context.out.json() ? status_event(now) : status_text(now));
  return exit_done;
}

result<int> stop_run(const CLI::App& app, const program_context& context) {
  TROUPE_TRY(options, read_client_options(app, context.out));
  if (auto taken = cluster::ask_stop(options); !taken) return tl::unexpected<fault>(taken.error());
  const std::string master = links::to_string(options.master);
  context.out.result(context.out.json() ? json_line("stop").add("master", master).take()
                                        : fmt::format("master {}: the run ends after the step under way\n", master));
  return exit_done;
}

}  // namespace

subcommand add_status(CLI::App& program) {
  return add_client(program, "status", "show how a run is, and who waits on whom",
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
