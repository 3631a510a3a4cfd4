// Options of subcommands that connect to a running master: address, credentials and timeout.

#pragma once

#include "apps/subcommand.hpp"
#include "cluster/client.hpp"

namespace troupe::apps {

/// Adds HOST:PORT, --timeout, and the network options.
void add_client_options(CLI::App& app);
result<cluster::client_options> read_client_options(const CLI::App& app, console& out);

}  // namespace troupe::apps
