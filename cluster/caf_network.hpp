// CAF's network layer over connections of ours: the one place that touches its brokers.
//
// CAF has no limit on what a peer makes it allocate, compares no versions and lets whoever is connected talk to any
// actor. So it never gets a socket of the network: it gets one end of a socket pair, and `control_tunnel` carries the
// bytes over a link, whose handshake is over by then.

#pragma once

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/expected.hpp>
#include <caf/io/scribe.hpp>
#include <functional>
#include <set>
#include <string>

namespace troupe::cluster {

/// Makes the types of messages known, as `initialize_types` does, and those of CAF's network layer too.
void initialize_network_types();

/// Loads CAF's network layer into a system. Its heartbeats are off: links have their own.
void add_network(caf::actor_system_config& config);

/// The connection of one end of a socket pair, which becomes CAF's.
caf::io::scribe_ptr connection_of(caf::actor_system& system, int socket);

/// Offers `whom` to the node at the other end of `connection`.
void offer_actor(caf::actor_system& system, caf::io::scribe_ptr connection, const caf::strong_actor_ptr& whom,
                 std::set<std::string> interface);

/// Asks for the actor that is offered at the other end of `connection`. `done` is called once, on a thread of the
/// system.
void ask_for_actor(caf::actor_system& system, caf::io::scribe_ptr connection,
                   std::function<void(caf::expected<caf::strong_actor_ptr>)> done);

}  // namespace troupe::cluster
