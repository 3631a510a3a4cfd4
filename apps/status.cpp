// `troupe status`: shows a run's members, its progress, and who waits on whom.

#include "apps/client_options.hpp"
#include "apps/status_report.hpp"
#include "apps/subcommand.hpp"
#include "base/result.hpp"

namespace troupe::apps {

subcommand add_status(CLI::App& program, const program_context& context) {
  CLI::App* app = program.add_subcommand("status", "show how a run is, and who waits on whom");
  add_client_options(*app);
  add_switch(*app, "json", "the result as a JSON object on one line", "Output");
  app->footer(
      "Exit codes: 0 done; 1 the master cannot be reached, refuses or does not answer;\n"
      "2 an option or a file is wrong.");
  subcommand self;
  self.app = app;
  self.no_positional = "HOST:PORT is all it takes";
  self.run = [app, context]() -> result<int> {
    TROUPE_TRY(options, read_client_options(*app, context.out));
    TROUPE_TRY(now, cluster::ask_status(options));
    context.out.result(context.out.json() ? status_event(now) : status_text(now));
    return exit_done;
  };
  return self;
}

}  // namespace troupe::apps
