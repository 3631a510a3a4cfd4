#include "apps/client_options.hpp"

#include <utility>

#include "apps/network_options.hpp"
#include "base/result.hpp"

namespace troupe::apps {

void add_client_options(CLI::App& app) {
  app.add_option("HOST:PORT")->description("where the master listens");
  add_text_option(app, "timeout", "SECONDS", "how long the master may take to answer (default: 5)", "Network");
  add_network_options(app, true);
}

result<cluster::client_options> read_client_options(const CLI::App& app, console& out) {
  const CLI::Option* master = app.get_option("HOST:PORT");
  if (master->count() == 0) return bad_input("HOST:PORT is missing: where the master listens");
  cluster::client_options options;
  TROUPE_TRY(where, read_endpoint("HOST:PORT", master->results().front()));
  options.master = where;
  TROUPE_TRY(network, read_network_options(app, out));
  options.network = std::move(network);
  // The master waits a second for its members' status.
  TROUPE_TRY(timeout, read_seconds(app, "timeout", options.timeout, 1.5, 86'400));
  options.timeout = timeout;
  return options;
}

}  // namespace troupe::apps
