// Network options, which are the same in every subcommand that has them: token, certificates, timeouts.

#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <string>

#include "cluster/launch/console.hpp"
#include "cluster/nodes/run.hpp"

namespace troupe::launch {

/// Reads --dead-after and --request-timeout.
result<void> read_timeouts(const CLI::App& app, nodes::network_options& options);

/// Reads --token-file, or the variable TROUPE_TOKEN; leaves the token unchanged without either. Warns of a weak token.
result<void> read_own_token(const CLI::App& app, nodes::network_options& options, console& out);

/// Adds all network sets except `process_tls`; `certificate_name` only for a process that `connects` to the master.
void add_network_options(CLI::App& app, bool connects);

/// Returns the given options as on a command line: ` --insecure --dead-after 2`; the token's file, not the token.
std::string given_network_options(const CLI::App& app);

/// Reads the network options. Links have TLS by certificates, else by the token, and none with --insecure. Warns of a
/// weak token.
result<nodes::network_options> read_network_options(const CLI::App& app, console& out);

/// Reads a duration in seconds, perhaps with a fraction, between `least` and `most` seconds.
result<std::chrono::milliseconds> read_seconds(const CLI::App& app, const std::string& name,
                                               std::chrono::milliseconds otherwise, double least, double most);

/// Parses `HOST:PORT` given for `what`.
result<links::endpoint> read_endpoint(const std::string& what, const std::string& text);

}  // namespace troupe::launch
