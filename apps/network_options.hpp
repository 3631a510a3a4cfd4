// The options by which processes of a run find and trust each other: the same in every subcommand that has them.

#pragma once

#include <string>

#include "apps/subcommand.hpp"
#include "cluster/run.hpp"

namespace troupe::apps {

/// Reads --dead-after and --request-timeout.
std::optional<fault> read_timeouts(const CLI::App& app, cluster::network_options& options);

/// Reads --token-file, or the variable TROUPE_TOKEN; leaves the token alone if neither is there. Warns of one that can
/// be guessed.
std::optional<fault> read_own_token(const CLI::App& app, cluster::network_options& options, console& out);

/// Adds all sets of the network but `process_tls`; `certificate_name` only for a process that `connects` to the master.
void add_network_options(CLI::App& app, bool connects);

/// Those that were given, as they stand on a command line: ` --insecure --dead-after 2`. Where the token is among them,
/// but not the token.
std::string given_network_options(const CLI::App& app);

/// Reads them. Links have TLS by certificates, by the token where none are given, and none with --insecure. Warns of a
/// token that can be guessed.
result<cluster::network_options> read_network_options(const CLI::App& app, console& out);

/// A duration in seconds, with a fraction if need be, between `least` and `most` seconds.
result<std::chrono::milliseconds> read_seconds(const CLI::App& app, const std::string& name,
                                               std::chrono::milliseconds otherwise, double least, double most);

/// `HOST:PORT` as given for `what`.
result<links::endpoint> read_endpoint(const std::string& what, const std::string& text);

}  // namespace troupe::apps
