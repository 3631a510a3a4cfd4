// A server that gets a trainer's gradients late.

#pragma once

#include <utility>
#include <vector>

#include "protocol/messages.hpp"

namespace troupe::actors {

/// Forwards all messages to a server, except the gradients of one rank from one step on, which it keeps. On request it
/// also keeps the server from saving.
struct slow_road {
  std::uint32_t rank;
  std::uint64_t step;
  std::vector<msg::gradient> kept;
  bool never_saves = false;
  std::vector<caf::typed_response_promise<msg::saved_module>> unsaved{};

  msg::parameter_server_actor::behavior_type behavior(msg::parameter_server_actor::pointer self,
                                                      msg::parameter_server_actor server) {
    return {
        [self, server](msg::instantiate& order) -> caf::result<msg::module_ref> {
          auto promise = self->make_response_promise<msg::module_ref>();
          self->request(server, caf::infinite, std::move(order)).then([self, promise](msg::module_ref& made) mutable {
            made.server = self;
            promise.deliver(std::move(made));
          });
          return promise;
        },
        [self, server](msg::lookup& m) { return self->delegate(server, std::move(m)); },
        [this, self, server](msg::gradient& m) {
          if (m.rank == rank && m.head.step >= step)
            kept.push_back(std::move(m));
          else
            self->send(server, std::move(m));
        },
        [self, server](const msg::gradient_norm& m) { return self->delegate(server, m); },
        [self, server](const msg::optimizer_step& m) { return self->delegate(server, m); },
        [self, server](const msg::parameters& m) { return self->delegate(server, m); },
        [self, server](const msg::state_dict& m) { return self->delegate(server, m); },
        [self, server](const msg::load_state_dict& m) { return self->delegate(server, m); },
        [self, server](const msg::row_digests& m) { return self->delegate(server, m); },
        [this, self, server](const msg::save_module& m) -> caf::result<msg::saved_module> {
          if (never_saves) return unsaved.emplace_back(self->make_response_promise<msg::saved_module>());
          return self->delegate(server, m);
        },
        [self, server](const msg::restore_module& m) { return self->delegate(server, m); },
        [self, server](const msg::release& m) { self->send(server, m); },
        [self, server](const msg::set_optimizer& m) { self->send(server, m); },
        [self, server](const msg::call& m) { return self->delegate(server, m); },
        [self, server](const msg::actor_query& m) { return self->delegate(server, m); },
    };
  }
};

}  // namespace troupe::actors
