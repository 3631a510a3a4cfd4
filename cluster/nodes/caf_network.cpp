#include "cluster/nodes/caf_network.hpp"

#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/io/network/multiplexer.hpp>
#include <mutex>
#include <utility>

#include "protocol/errors.hpp"
#include "protocol/message_types.hpp"

namespace troupe::nodes {

namespace {

/// CAF's key for the offered actor; not a port of the system.
constexpr std::uint16_t offer_port = 1;

caf::actor broker_of(caf::actor_system& system) {
  return system.middleman().named_broker<caf::io::basp_broker>("BASP");
}

}  // namespace

void initialize_network_types() {
  protocol::initialize_types();
  static std::once_flag done;
  std::call_once(done, caf::io::middleman::init_global_meta_objects);
}

void add_network(caf::actor_system_config& config) {
  config.load<caf::io::middleman>();
  config.set("caf.middleman.heartbeat-interval", caf::timespan{0});
  config.set("caf.middleman.workers", 1);
  // Under work stealing, idle workers poll with sleeps of up to 10 ms; shared queues wake them at once.
  config.set("caf.scheduler.policy", "sharing");
}

caf::io::scribe_ptr connection_of(caf::actor_system& system, int socket) {
  return system.middleman().backend().new_scribe(socket);
}

void offer_actor(caf::actor_system& system, caf::io::scribe_ptr connection, const caf::strong_actor_ptr& receiver,
                 std::set<std::string> interface) {
  caf::anon_send(broker_of(system), caf::publish_atom_v, std::move(connection), offer_port, receiver,
                 std::move(interface));
}

void ask_for_actor(caf::actor_system& system, caf::io::scribe_ptr connection,
                   std::function<void(caf::expected<caf::strong_actor_ptr>)> done) {
  system.spawn<caf::hidden>([broker = broker_of(system), connection = std::move(connection),
                             done = std::move(done)](caf::event_based_actor* self) mutable {
    self->request(broker, std::chrono::seconds(10), caf::connect_atom_v, std::move(connection), offer_port)
        .then(
            [done](const caf::node_id&, const caf::strong_actor_ptr& found, const std::set<std::string>&) {
              if (found)
                done(found);
              else
                done(protocol::make_failure(protocol::errc::peer_failed, "nothing is offered there"));
            },
            [done](const caf::error& error) { done(error); });
  });
}

}  // namespace troupe::nodes
