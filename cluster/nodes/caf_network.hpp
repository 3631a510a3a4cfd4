// CAF's network layer over our own connections: the only file that uses CAF's brokers.
//
// CAF does not limit what a peer makes it allocate, compares no versions, and lets every connected peer send to any
// actor. So it gets no network socket, but one end of a socket pair; `control_tunnel` carries the bytes over a link
// whose handshake has succeeded.

#pragma once

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/expected.hpp>
#include <caf/io/scribe.hpp>
#include <functional>
#include <set>
#include <string>

namespace troupe::nodes {

/// Registers the message types of Troupe (`initialize_types`) and of CAF's network layer.
void initialize_network_types();

/// Loads CAF's network layer into a system, without its heartbeats: links have their own.
void add_network(caf::actor_system_config& config);

/// Returns CAF's connection for one end of a socket pair, and gives the socket to CAF.
caf::io::scribe_ptr connection_of(caf::actor_system& system, int socket);

/// Offers `receiver` to the node at the other end of `connection`.
void offer_actor(caf::actor_system& system, caf::io::scribe_ptr connection, const caf::strong_actor_ptr& receiver,
                 std::set<std::string> interface);

/// Asks for the actor offered at the other end of `connection`. Calls `done` once, on a thread of the system.
void ask_for_actor(caf::actor_system& system, caf::io::scribe_ptr connection,
                   std::function<void(caf::expected<caf::strong_actor_ptr>)> done);

}  // namespace troupe::nodes
