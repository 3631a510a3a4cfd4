#include "tests/simulation/sim_plane.hpp"

#include <fmt/format.h>

#include <utility>

#include "tests/simulation/world.hpp"

namespace troupe::simulation {
sim_plane::sim_plane(world& where, event_owner& home, caf::actor_system& system,
                     std::chrono::milliseconds request_timeout)
    : where_(where),
      home_(home),
      system_(system),
      request_timeout_(request_timeout),
      unit_(std::make_shared<actors::inline_execution>(&system)) {}

sim_plane::~sim_plane() { close(); }

std::string sim_plane::listen() {
  // The same address each time this process listens.
  address_ = fmt::format("10.0.0.{}:7000", home_.number());
  where_.planes()[address_] = weak_from_this();
  is_listening_ = true;
  expire_later();
  return address_;
}

void sim_plane::close() {
  if (std::exchange(is_closed_, true)) return;
  is_listening_ = false;
  for (const auto& [node, one] : links_) one->close();
  links_.clear();
  actors_->clear();
}

void sim_plane::expect(const identity& me, std::vector<msg::peer_node> peers,
                       std::function<void(std::uint32_t, const std::string&)> on_lost) {
  on_lost_ = std::move(on_lost);
  rules_.expect(me, std::move(peers));
  run_ = me.run;
  if (where_.what().planted.old_rows) plant_old_rows();
}

void sim_plane::connect(std::function<void(const std::string&)> done) {
  // As if on a separate thread: never within this call.
  where_.events().after(sim_duration(0), &home_, event_tag::connecting,
                        [me = weak_from_this(), done = std::move(done)]() mutable {
                          const auto self = me.lock();
                          if (!self || self->is_closed_) return;
                          self->on_settled_ = std::move(done);
                          const auto give_up = self->where_.events().now() + self->where_.what().network.dead_after;
                          for (const std::uint32_t node : self->rules_.to_dial()) self->dial(node, give_up);
                          self->settle_if_complete();
                        });
}

void sim_plane::dial(std::uint32_t node, sim_time give_up) {
  const msg::peer_node* peer = rules_.find(node);
  const auto known = where_.planes().find(peer->address);
  const auto there = known == where_.planes().end() ? nullptr : known->second.lock();
  const auto accept = [address = peer->address, where = &where_,
                       mine = rules_.about_me()](const std::shared_ptr<sim_link>& wire) -> result<void> {
    const auto host = where->planes()[address].lock();
    if (!host || !host->is_listening()) return failure(fault_kind::unreachable, "no process listens there");
    if (const auto reply = host->check_hello(mine); !reply) return failure(fault_kind::refused, reply.error().message);
    host->accept(mine, wire);
    return {};
  };
  where_.connect(home_, there ? &there->home() : nullptr, accept,
                 [me = weak_from_this(), node, give_up](result<std::shared_ptr<sim_link>> made) {
                   const auto self = me.lock();
                   if (!self || self->is_closed_) {
                     if (made) (*made)->close();
                     return;
                   }
                   if (made) return self->add(node, std::move(*made));
                   if (made.error().kind != fault_kind::unreachable || self->where_.events().now() > give_up)
                     return self->settle(
                         fmt::format("{} cannot be reached: {}", self->rules_.find(node)->name, made.error().message));
                   constexpr std::chrono::milliseconds pause{100};
                   self->where_.events().after(pause, &self->home_, event_tag::connecting, [me, node, give_up] {
                     if (const auto still = me.lock(); still && !still->is_closed_) still->dial(node, give_up);
                   });
                 });
}

void sim_plane::accept(const links::hello& theirs, std::shared_ptr<sim_link> wire) {
  add(static_cast<std::uint32_t>(nodes::node_in(theirs)), std::move(wire));
}

void sim_plane::add(std::uint32_t node, std::shared_ptr<sim_link> wire) {
  const msg::peer_node& peer = *rules_.find(node);
  wires_[{peer.trains, peer.ranks.front()}] = wire;
  if (where_.what().planted.old_messages) plant_old_messages(peer, *wire);
  auto made = std::make_shared<nodes::data_link>(
      system_, std::move(wire), unit_, actors_,
      nodes::data_link::options{.peer = peer.name, .node = node, .request_timeout = request_timeout_});
  made->start([me = weak_from_this(), node](const std::string& why) {
    const auto self = me.lock();
    if (!self) return;
    if (self->on_settled_) return self->settle(fmt::format("{} is gone: {}", self->rules_.find(node)->name, why));
    if (self->on_lost_) self->on_lost_(node, why);
  });
  links_[node] = std::move(made);
  rules_.made(node);
  settle_if_complete();
}

void sim_plane::settle_if_complete() {
  if (!rules_.complete()) return;
  is_listening_ = false;
  settle({});
}

void sim_plane::settle(const std::string& problem) {
  if (const auto report = std::exchange(on_settled_, nullptr)) report(problem);
}

nodes::data_link_ptr sim_plane::link_to(std::uint32_t node) const {
  const auto known = links_.find(node);
  return known == links_.end() ? nullptr : known->second;
}

std::uint64_t sim_plane::newest_step() const {
  std::uint64_t newest = 0;
  for (const auto& [node, one] : links_) newest = std::max(newest, one->newest_step());
  return newest;
}

void sim_plane::expire_later() {
  constexpr int looks_per_timeout = 20;
  constexpr std::chrono::milliseconds longest{1000};
  where_.events().after(std::min<std::chrono::milliseconds>(longest, request_timeout_ / looks_per_timeout), &home_,
                        event_tag::expiry, [me = weak_from_this()] {
                          const auto self = me.lock();
                          if (!self || self->is_closed_) return;
                          for (const auto& [node, one] : self->links_) one->expire(self->where_.events().now());
                          self->unit_->run();
                          self->expire_later();
                        });
}

}  // namespace troupe::simulation
