// A server behind which gradients of a trainer are late.

#pragma once

#include <utility>
#include <vector>

#include "protocol/messages.hpp"

namespace troupe {

/// Stands for a server and passes everything on to it, but the gradients of one rank from one step on: those it keeps.
/// If asked to, it lets nobody save either.
struct slow_road {
  std::uint32_t rank;
  std::uint64_t step;
  std::vector<gradient> kept;
  bool never_saves = false;
  std::vector<caf::typed_response_promise<saved_module>> unsaved{};

  parameter_server_actor::behavior_type behavior(parameter_server_actor::pointer self, parameter_server_actor server) {
    return {
        [self, server](instantiate& order) -> caf::result<module_ref> {
          auto promise = self->make_response_promise<module_ref>();
          self->request(server, caf::infinite, std::move(order)).then([self, promise](module_ref& made) mutable {
            made.server = self;
            promise.deliver(std::move(made));
          });
          return promise;
        },
        [self, server](lookup& m) { return self->delegate(server, std::move(m)); },
        [this, self, server](gradient& m) {
          if (m.rank == rank && m.head.step >= step)
            kept.push_back(std::move(m));
          else
            self->send(server, std::move(m));
        },
        [self, server](const gradient_norm& m) { return self->delegate(server, m); },
        [self, server](const optimizer_step& m) { return self->delegate(server, m); },
        [self, server](const parameters& m) { return self->delegate(server, m); },
        [self, server](const state_dict& m) { return self->delegate(server, m); },
        [self, server](const load_state_dict& m) { return self->delegate(server, m); },
        [self, server](const row_digests& m) { return self->delegate(server, m); },
        [this, self, server](const save_module& m) -> caf::result<saved_module> {
          if (never_saves) return unsaved.emplace_back(self->make_response_promise<saved_module>());
          return self->delegate(server, m);
        },
        [self, server](const restore_module& m) { return self->delegate(server, m); },
        [self, server](const release& m) { self->send(server, m); },
        [self, server](const actor_query& m) { return self->delegate(server, m); },
    };
  }
};

}  // namespace troupe
