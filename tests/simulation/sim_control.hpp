// A control connection: replaces the tunnel of CAF's network layer between a member and the master. Messages cross it
// as bytes, through CAF's own serialisation; proxies represent the actors of the other process, and end with them or
// with the connection.

#pragma once

#include <caf/all.hpp>
#include <caf/proxy_registry.hpp>
#include <caf/scoped_execution_unit.hpp>
#include <functional>
#include <memory>

#include "tests/simulation/sim_link.hpp"

namespace troupe::simulation {

/// One end of the connection, in one process.
class sim_control final : public std::enable_shared_from_this<sim_control>, caf::proxy_registry::backend {
 public:
  sim_control(caf::actor_system& system, std::shared_ptr<sim_link> wire);
  ~sim_control() override;

  /// Calls `on_end` once when the connection has ended: with the reason, or null after a goodbye. Not called after
  /// `close`.
  void start(std::function<void(const fault* why)> on_end);
  void close();

  /// Returns an actor of the other process.
  caf::strong_actor_ptr actor_there(const caf::node_id& node, caf::actor_id id) {
    return proxies_.get_or_put(node, id);
  }

  // -- for proxies ------------------------------------------------------------------

  /// Returns false if the connection has ended.
  bool forward(caf::actor_id to, const caf::strong_actor_ptr& sender, caf::message_id id, const caf::message& content);
  void announce_end(caf::actor_id whose, const caf::error& why);

 private:
  enum frame_kind : std::uint8_t { message_kind = links::link::first_user_kind, watch_kind, end_kind };

  caf::strong_actor_ptr make_proxy(caf::node_id node, caf::actor_id id) override;
  void set_last_hop(caf::node_id* /*hop*/) override {}
  void send(std::uint8_t kind, caf::byte_buffer bytes);
  void received(const links::received_frame& frame);
  void take_message(caf::binary_deserializer& source);
  void watch(caf::actor_id receiver);
  void ended();

  caf::actor_system& system_;
  std::shared_ptr<sim_link> wire_;
  caf::proxy_registry proxies_;
  caf::scoped_execution_unit unit_;
  caf::node_id other_;
  bool is_over_ = false;
  std::function<void(const fault*)> on_end_;
};

}  // namespace troupe::simulation
