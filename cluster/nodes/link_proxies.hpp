// The proxies of a data link. A proxy is not an actor of its own: it writes the frame on the sender's thread.

#pragma once

#include <caf/actor_proxy.hpp>
#include <caf/make_actor.hpp>
#include <cstdint>
#include <memory>
#include <utility>

#include "cluster/nodes/data_link.hpp"
#include "protocol/errors.hpp"

namespace troupe::nodes {

/// Stands for an actor of the other process.
class link_proxy : public caf::actor_proxy {
 public:
  link_proxy(caf::actor_config& config, std::weak_ptr<data_link> wire, std::uint32_t number)
      : actor_proxy(config), wire_(std::move(wire)), number_(number) {}

  const char* name() const override { return "troupe.link-proxy"; }

  bool enqueue(caf::mailbox_element_ptr what, caf::execution_unit*) override {
    const auto wire = wire_.lock();
    if (!wire) {
      bounce(what, protocol::make_failure(protocol::errc::peer_failed, "the link to it has ended"));
      return false;
    }
    wire->forward(number_, std::move(what->sender), what->mid, what->payload);
    return true;
  }

  void kill_proxy(caf::execution_unit* context, caf::error reason) override { cleanup(std::move(reason), context); }

 private:
  std::weak_ptr<data_link> wire_;
  std::uint32_t number_;
};

/// Stands for all senders of the other process, so that local actors can answer them.
class reply_proxy : public caf::actor_proxy {
 public:
  reply_proxy(caf::actor_config& config, std::weak_ptr<data_link> wire) : actor_proxy(config), wire_(std::move(wire)) {}

  const char* name() const override { return "troupe.reply-proxy"; }

  bool enqueue(caf::mailbox_element_ptr what, caf::execution_unit*) override {
    if (!what->mid.is_response()) return false;
    if (const auto wire = wire_.lock()) wire->answered(what->mid, what->payload);
    return true;
  }

  void kill_proxy(caf::execution_unit* context, caf::error reason) override { cleanup(std::move(reason), context); }

 private:
  std::weak_ptr<data_link> wire_;
};

/// Makes a proxy; it has no thread.
template <class Proxy, class... Args>
caf::strong_actor_ptr make_in(caf::actor_system& system, Args&&... args) {
  caf::actor_config config;
  return caf::make_actor<Proxy, caf::strong_actor_ptr>(system.next_actor_id(), system.node(), &system, config,
                                                       std::forward<Args>(args)...);
}

}  // namespace troupe::nodes
