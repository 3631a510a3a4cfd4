// Bugs planted to check that the simulation finds them: the effects of missing fences between attempts.

#include <caf/actor_proxy.hpp>
#include <cstring>
#include <utility>

#include "actors/common/actor_name.hpp"
#include "actors/server/parameter_server.hpp"
#include "cluster/nodes/link_proxies.hpp"
#include "tests/simulation/member.hpp"

namespace troupe::simulation {
namespace {

/// Replaces a run's number in the bytes of a frame, so that the receiver accepts it.
links::received_frame as_of_run(const links::received_frame& frame, std::uint64_t from, std::uint64_t to) {
  const std::shared_ptr<std::byte> copy(static_cast<std::byte*>(::operator new (frame.size + 1, std::align_val_t{64})),
                                        [](std::byte* one) { ::operator delete (one, std::align_val_t{64}); });
  std::memcpy(copy.get(), frame.memory.get(), frame.size);
  for (std::size_t at = 0; at + sizeof from <= frame.size; ++at)
    if (std::memcmp(copy.get() + at, &from, sizeof from) == 0) std::memcpy(copy.get() + at, &to, sizeof to);
  return {frame.kind, copy, frame.size};
}

/// Proxy of a server that has its first lookup answered by a server of the previous attempt.
class old_rows_relay : public caf::actor_proxy {
 public:
  old_rows_relay(caf::actor_config& config, caf::strong_actor_ptr present, former_server former)
      : actor_proxy(config), present_(std::move(present)), former_(std::move(former)) {}

  const char* name() const override { return "old-rows-relay"; }

  bool enqueue(caf::mailbox_element_ptr what, caf::execution_unit* context) override {
    if (!former_.server || !what->payload.match_elements<msg::lookup>())
      return present_->enqueue(std::move(what), context);
    const former_server former = std::exchange(former_, {});
    auto* const self = caf::actor_cast<actors::parameter_server_state::pointer>(former.server);
    self->state.trainers_come_from({});
    auto wanted = what->payload.get_as<msg::lookup>(0);
    wanted.head.run = former.run;
    wanted.head.step = self->state.step + 1;
    return caf::actor_cast<caf::strong_actor_ptr>(former.server)
        ->enqueue(what->sender, what->mid, caf::make_message(std::move(wanted)), context);
  }

  void kill_proxy(caf::execution_unit* context, caf::error reason) override { cleanup(std::move(reason), context); }

 private:
  caf::strong_actor_ptr present_;
  former_server former_;
};

}  // namespace

/// Forwards frames that arrive on this link after its end to the next attempt's link, with that run's number.
void sim_plane::plant_old_messages(const msg::peer_node& peer, sim_link& wire) {
  const bool trains = peer.trains;
  const std::uint32_t rank = peer.ranks.front();
  wire.whole().when_closed(
      wire.side(), [where = &where_, address = address_, from = run_, trains, rank](links::received_frame&& frame) {
        const auto now = where->planes()[address].lock();
        if (!now || now->run() == from) return;
        if (const auto to = now->wire_to(trains, rank)) to->take(as_of_run(frame, from, now->run()));
      });
}

/// Stores this process's servers, and puts proxies to those of the previous attempt in front of them.
void sim_plane::plant_old_rows() {
  for (std::uint32_t rank = 0; rank < where_.what().servers; ++rank) {
    const auto mine = actors_->find(actors::server_number(rank));
    if (!mine) continue;
    const auto handle = caf::actor_cast<msg::parameter_server_actor>(mine);
    auto* const self = caf::actor_cast<actors::parameter_server_state::pointer>(handle);
    self->set_exit_handler([](const caf::exit_msg&) {});
    auto& former = where_.former_servers()[{home_.number(), rank}];
    actors_->add(actors::server_number(rank),
                 nodes::make_in<old_rows_relay>(system_, mine, std::exchange(former, former_server{handle, run_})));
  }
}

}  // namespace troupe::simulation
