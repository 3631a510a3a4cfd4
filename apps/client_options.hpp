// What subcommands that speak to a running master are told: where it is, how to be let in, and how long to wait.

#pragma once

#include "apps/subcommand.hpp"
#include "cluster/client.hpp"

namespace troupe::apps {

/// HOST:PORT, --timeout, and the options of every process of a run.
void add_client_options(CLI::App& app);
result<cluster::client_options> read_client_options(const CLI::App& app, console& out);

}  // namespace troupe::apps
