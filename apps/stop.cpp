// `troupe stop`: ends a run after the current step, like the first Ctrl-C at its master.

#include <fmt/format.h>

#include "apps/client_options.hpp"
#include "apps/subcommand.hpp"
#include "base/json_text.hpp"
#include "base/result.hpp"

namespace troupe::apps {

subcommand add_stop(CLI::App& program, const program_context& context) {
  CLI::App* app = program.add_subcommand("stop", "have a run finish its step, save if it saves, and end");
  add_client_options(*app);
  add_switch(*app, "json", "the result as a JSON object on one line", "Output");
  app->footer(
      "Exit codes: 0 the master ends the run; 1 it cannot be reached, refuses or does not\n"
      "answer; 2 an option or a file is wrong.");
  subcommand self;
  self.app = app;
  self.no_positional = "HOST:PORT is all it takes";
  self.run = [app, context]() -> result<int> {
    TROUPE_TRY(options, read_client_options(*app, context.out));
    if (auto taken = cluster::ask_stop(options); !taken) return tl::unexpected<fault>(taken.error());
    const std::string master = links::to_string(options.master);
    context.out.result(context.out.json() ? json_line("stop").add("master", master).take()
                                          : fmt::format("master {}: the run ends after the step under way\n", master));
    return exit_done;
  };
  return self;
}

}  // namespace troupe::apps
