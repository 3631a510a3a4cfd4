#include "tests/simulation/sim_control.hpp"

#include <caf/actor_proxy.hpp>
#include <utility>

#include "protocol/errors.hpp"

namespace troupe::simulation {
namespace {

/// Represents an actor of the other process.
class control_proxy : public caf::actor_proxy {
 public:
  control_proxy(caf::actor_config& config, std::weak_ptr<sim_control> wire)
      : actor_proxy(config), wire_(std::move(wire)) {}

  const char* name() const override { return "control-proxy"; }

  bool enqueue(caf::mailbox_element_ptr what, caf::execution_unit*) override {
    if (const auto wire = wire_.lock(); wire && wire->forward(id(), what->sender, what->mid, what->payload))
      return true;
    bounce(what, caf::make_error(caf::exit_reason::remote_link_unreachable));
    return false;
  }

  void kill_proxy(caf::execution_unit* context, caf::error reason) override { cleanup(std::move(reason), context); }

 private:
  std::weak_ptr<sim_control> wire_;
};

}  // namespace

sim_control::sim_control(caf::actor_system& system, std::shared_ptr<sim_link> wire)
    : system_(system), wire_(std::move(wire)), proxies_(system, *this), unit_(&system) {
  unit_.proxy_registry_ptr(&proxies_);
}

sim_control::~sim_control() { proxies_.clear(); }

void sim_control::start(std::function<void(const fault*)> on_end) {
  on_end_ = std::move(on_end);
  wire_->start({.on_frame =
                    [me = weak_from_this()](links::received_frame&& frame) {
                      if (const auto self = me.lock()) self->received(frame);
                    },
                .on_end =
                    [me = weak_from_this()](const fault* why) {
                      const auto self = me.lock();
                      if (!self) return;
                      if (const auto report = std::exchange(self->on_end_, nullptr)) report(why);
                      self->ended();  // after our own report, like a tunnel
                    }});
}

void sim_control::close() {
  on_end_ = nullptr;
  wire_->close();
  ended();
}

void sim_control::ended() {
  if (!std::exchange(is_over_, true)) proxies_.clear();
}

caf::strong_actor_ptr sim_control::make_proxy(caf::node_id node, caf::actor_id id) {
  if (!node || id == 0) return nullptr;  // like CAF for an invalid handle
  other_ = node;
  caf::actor_config config;
  auto made =
      caf::make_actor<control_proxy, caf::strong_actor_ptr>(id, std::move(node), &system_, config, weak_from_this());
  caf::byte_buffer bytes;
  caf::binary_serializer sink(&unit_, bytes);
  TROUPE_ASSERT(sink.apply(id));
  send(watch_kind, std::move(bytes));
  return made;
}

void sim_control::send(std::uint8_t kind, caf::byte_buffer bytes) {
  const auto owner = std::make_shared<caf::byte_buffer>(std::move(bytes));
  const links::piece all{owner, reinterpret_cast<const std::byte*>(owner->data()), owner->size()};
  wire_->send(kind, {all}, false);
}

bool sim_control::forward(caf::actor_id to, const caf::strong_actor_ptr& sender, caf::message_id id,
                          const caf::message& content) {
  if (is_over_) return false;
  caf::byte_buffer bytes;
  caf::binary_serializer sink(&unit_, bytes);
  std::uint64_t number = id.integer_value();
  auto from = sender;
  auto what = content;
  TROUPE_ASSERT(sink.apply(to) && sink.apply(number) && sink.apply(from) && sink.apply(what));
  send(message_kind, std::move(bytes));
  return true;
}

void sim_control::announce_end(caf::actor_id whose, const caf::error& why) {
  caf::byte_buffer bytes;
  caf::binary_serializer sink(&unit_, bytes);
  auto reason = why;
  TROUPE_ASSERT(sink.apply(whose) && sink.apply(reason));
  send(end_kind, std::move(bytes));
}

void sim_control::received(const links::received_frame& frame) {
  caf::binary_deserializer source(&unit_, reinterpret_cast<const caf::byte*>(frame.memory.get()), frame.size);
  caf::actor_id about = 0;
  if (frame.kind == message_kind) return take_message(source);
  TROUPE_ASSERT(source.apply(about));
  if (frame.kind == watch_kind) return watch(about);
  caf::error why;
  TROUPE_ASSERT(source.apply(why));
  proxies_.erase(other_, about, why);
}

void sim_control::take_message(caf::binary_deserializer& source) {
  caf::actor_id to = 0;
  std::uint64_t number = 0;
  caf::strong_actor_ptr sender;
  caf::message content;
  TROUPE_ASSERT(source.apply(to) && source.apply(number) && source.apply(sender) && source.apply(content));
  const auto target = system_.registry().get(to);
  const auto id = caf::make_message_id(number);
  if (target) {
    target->enqueue(std::move(sender), id, std::move(content), nullptr);
  } else if (id.is_request() && sender) {
    sender->enqueue(nullptr, id.response_id(),
                    caf::make_message(caf::make_error(caf::exit_reason::remote_link_unreachable)), nullptr);
  }
}

/// The other process now has a proxy of `receiver`, and gets a message when that ends.
void sim_control::watch(caf::actor_id receiver) {
  const auto target = system_.registry().get(receiver);
  if (!target) return announce_end(receiver, caf::make_error(caf::exit_reason::unknown));
  target->get()->attach_functor([me = weak_from_this(), receiver](const caf::error& why) {
    if (const auto self = me.lock(); self && !self->is_over_) self->announce_end(receiver, why);
  });
}

}  // namespace troupe::simulation
