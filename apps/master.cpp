// `troupe master`: runs a job whose servers and trainers join from other processes, here or on other hosts.

#include <fmt/format.h>

#include "apps/subcommand.hpp"
#include "apps/train.hpp"
#include "apps/train_options.hpp"
#include "base/result.hpp"
#include "base/stop_request.hpp"
#include "base/text.hpp"
#include "cluster/launch/network_options.hpp"
#include "cluster/launch/option_table.hpp"
#include "cluster/launch/restarts.hpp"
#include "cluster/launch/signals.hpp"
#include "cluster/launch/stop_deadline.hpp"

namespace troupe::apps {
namespace {

result<int> lead(const CLI::App& app, const program_context& context) {
  for (const char* name : {"device", "devices", "server-device", "prepare"})
    if (const auto text = given_text(app, name))
      return bad_input("--{} {}: the master computes nothing; give it to 'troupe join'", name, printable(*text));
  TROUPE_DO(supervise_if_wanted(app, context.out));
  const stop_scope heeds(stop_on_signals(context.out));
  const stop_deadline overdue(context.out, stopping_part::leader);
  auto read = read_train_order(app, computing::elsewhere);
  if (stop_asked()) return report_unbegun({}, context);
  TROUPE_TRY(order, std::move(read));
  if (order.processes)
    return bad_input("--processes: is for 'troupe train'; servers and trainers come to a master by 'troupe join'");
  TROUPE_TRY(is_printed, print_if_asked(app, order, context.out));
  if (is_printed) return exit_done;
  const auto given = given_text(app, "listen");
  if (!given) return bad_input("--listen HOST:PORT is missing: where servers and trainers find the master");
  TROUPE_TRY(where, read_endpoint("--listen", *given));
  TROUPE_TRY(network, read_network_options(app, context.out));
  auto gather = gather_at(where, std::move(network),
                          resume_command(order, fmt::format("troupe master --listen {}", links::to_string(where))),
                          order.rejoin_timeout, order.what.servers, order.what.ranks(), context.out);
  if (stop_asked()) return report_unbegun(order, context);
  if (!gather) return tl::unexpected<fault>(std::move(gather.error()));
  auto code = run_train_order(order, std::move(*gather), context);
  if (!code) return tl::unexpected<fault>(model::located(std::move(code.error()), order.file));
  return code;
}

}  // namespace

subcommand add_master(CLI::App& program) {
  CLI::App* app = program.add_subcommand("master", "lead a run whose servers and trainers join from elsewhere");
  add_train_options(*app);
  add_options(*app, option_set::processes);
  for (const char* name : {"--device", "--devices", "--server-device", "--prepare", "--processes"})
    app->get_option(name)->group("");  // for join or train
  add_text_option(*app, "listen", "HOST:PORT", "where servers and trainers find this process", "Network");
  add_network_options(*app, false);
  add_switch(*app, "supervised", "continue when processes are lost, this one too: --restarts 3, unless that is given",
             "Checkpoints");
  add_switch(*app, "json", "results as one JSON object a line", "Output");
  add_switch(*app, "quiet", "no progress", "Output");
  app->footer(
      "Example, with the token in TROUPE_TOKEN everywhere:\n"
      "  troupe master --listen 127.0.0.1:7000 --trainers 2 --servers 1\n"
      "  troupe join 127.0.0.1:7000 --as server\n"
      "  troupe join 127.0.0.1:7000 --as trainer --count 2\n"
      "Exit codes: as 'troupe train'.");

  return {app, "", lead};
}

}  // namespace troupe::apps
