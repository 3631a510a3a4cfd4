#include "tests/simulation/member.hpp"

#include <fmt/format.h>

#include <utility>

#include "tests/simulation/leader.hpp"

namespace troupe::simulation {
namespace {

std::string name_of(place_number place, std::uint32_t servers, std::uint32_t number) {
  return place <= servers ? fmt::format("server {} (process {})", place - 1, number)
                          : fmt::format("trainer {} (process {})", place - 1 - servers, number);
}

}  // namespace

member::member(world& where, std::uint32_t number, place_number place)
    : where_(where),
      place_(place),
      process_(where.events(), where.disk(), number, name_of(place, where.what().servers, number)) {}

member::~member() {
  where_.disk().caller(process_.number(), true);
  if (node_) caf::anon_send(node_, msg::run_over{});  // makes it end its servers or trainers
  process_.run_all();
  leave();
}

void member::join() {
  leader* const to = where_.the_leader();
  const std::string session = fmt::format("{}/{}", process_.number(), ++part_);
  struct offer {
    std::uint64_t run = 0;
    caf::node_id node;
    caf::actor_id master = 0;
  };
  const auto made = std::make_shared<offer>();
  const auto accept = [where = &where_, place = place_, session, to, made](const std::shared_ptr<sim_link>& wire) {
    const auto done = to->accept(wire, place, session);
    if (done) *made = {to->run_number(), to->master().node(), to->master().id()};
    return done;
  };
  where_.connect(
      process_, to == nullptr ? nullptr : &to->process(), accept, [this, made](result<std::shared_ptr<sim_link>> wire) {
        if (wire) return joined(*wire, made->run, made->node, made->master);
        constexpr sim_duration least{20'000'000};
        constexpr sim_duration most{500'000'000};
        where_.events().after(where_.events().draw(least, most), &process_, event_tag::joining, [this] { join(); });
      });
}

void member::joined(const std::shared_ptr<sim_link>& wire, std::uint64_t run, const caf::node_id& node,
                    caf::actor_id master) {
  const std::uint64_t part = part_;
  watch_ = std::make_shared<nodes::master_watch>();
  control_ = std::make_shared<sim_control>(process_.system(), wire);
  control_->start(
      [watch = watch_](const fault* why) { watch->lost({why != nullptr ? why->message : "it has ended"}); });
  const auto there = control_->actor_there(node, master);
  constexpr std::chrono::milliseconds request_timeout{20'000};
  plane_ = std::make_shared<sim_plane>(where_, process_, process_.system(), request_timeout);
  const std::string address = plane_->listen();
  nodes::node_options options;
  options.master = {"10.0.0.0", 7000};
  options.trains = is_trainer();
  options.rank = rank();
  options.network.request_timeout = request_timeout;
  nodes::node_state::dependencies needs;
  needs.master = caf::actor_cast<msg::master_actor>(there);
  needs.watch = watch_;
  needs.data = plane_.get();
  needs.options = std::move(options);
  needs.session = fmt::format("{}/{}", process_.number(), part);
  needs.data_address = *links::parse_endpoint(address);
  needs.on_end = [this, part](nodes::node_end how) {
    where_.events().after(sim_duration(0), &process_, event_tag::leaving,
                          [this, part, how = std::move(how)] { over(part, how); });
  };
  node_ = process_.system().spawn(nodes::node, std::move(needs));
  where_.report(fmt::format("{} joins run {}", process_.name(), run));
}

void member::over(std::uint64_t part, const nodes::node_end& end) {
  if (part != part_) return;
  leave();
  where_.report(
      fmt::format("{} is out of the run: {}", process_.name(), end.how ? "it is done" : end.how.error().message));
  const sim_time now = where_.events().now();
  if (end.rejoin_within.count() > 0) rejoin_until_ = now + end.rejoin_within;
  // The master of the failed attempt may still listen: only a refusal is final, and success.
  const bool is_over = end.how || end.how.error().kind == fault_kind::input;
  if (is_over || now >= rejoin_until_) return where_.exited(process_);
  constexpr sim_duration least{1'000'000};
  constexpr sim_duration most{300'000'000};
  where_.events().after(where_.events().draw(least, most), &process_, event_tag::joining, [this] { join(); });
}

/// Ends the rest of its part.
void member::leave() {
  node_ = nullptr;
  if (control_) control_->close();
  if (plane_) plane_->close();
  control_.reset();
  watch_.reset();
  former_plane_ = std::move(plane_);
}

}  // namespace troupe::simulation
