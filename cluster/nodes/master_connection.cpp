#include "cluster/nodes/master_connection.hpp"

#include <fmt/format.h>

#include <future>

#include "cluster/links/connect.hpp"
#include "cluster/nodes/caf_network.hpp"
#include "cluster/nodes/handshake_info.hpp"
#include "protocol/errors.hpp"

namespace troupe::nodes {

result<links::link_ptr> connect_to_master(boost::asio::io_context& io, const links::endpoint& master,
                                          const network_options& network, std::chrono::milliseconds time,
                                          const std::string& purpose, const std::string& session,
                                          const stop_request* user_stop) {
  const links::hello about_me = handshake_info(purpose, session);
  const auto made = std::make_shared<std::promise<result<links::link_ptr>>>();
  auto outcome = made->get_future();
  links::connect(io, master, network.mine, about_me, control_tunnel::limits(network.dead_after), {.time = time},
                 [made](result<links::link_ptr> link) { made->set_value(std::move(link)); });
  constexpr std::chrono::milliseconds look_interval{50};
  while (outcome.wait_for(look_interval) != std::future_status::ready)
    if (user_stop != nullptr && user_stop->requested()) return nullptr;
  auto link = outcome.get();
  if (!link) return failure(link.error().kind, "master " + link.error().message);  // it begins with the address
  if (auto differs = links::first_disagreement(about_me, (*link)->peer(), "the master"))
    return run_fault(std::move(*differs));
  return link;
}

caf::expected<msg::master_actor> find_master(caf::actor_system& system, control_tunnel& tunnel,
                                             std::chrono::milliseconds timeout,
                                             std::function<void(const std::string&)> on_lost) {
  const auto socket = tunnel.open();
  if (!socket) return protocol::make_failure(protocol::errc::exception, socket.error().message);
  auto found = std::make_shared<std::promise<caf::expected<caf::strong_actor_ptr>>>();
  auto outcome = found->get_future();
  ask_for_actor(system, connection_of(system, *socket),
                [found](caf::expected<caf::strong_actor_ptr> answer) { found->set_value(std::move(answer)); });
  tunnel.start(
      [report = std::move(on_lost)](const fault* why) { report(why != nullptr ? why->message : "it has ended"); });
  constexpr std::chrono::milliseconds look_interval{50};
  const auto give_up = std::chrono::steady_clock::now() + timeout;
  while (outcome.wait_for(look_interval) != std::future_status::ready && !stop_asked() &&
         std::chrono::steady_clock::now() < give_up) {
  }
  if (outcome.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    return protocol::make_failure(protocol::errc::timeout, "it did not answer within {} s",
                                  static_cast<double>(timeout.count()) / 1000);
  auto answer = outcome.get();
  if (!answer) return answer.error();
  return caf::actor_cast<msg::master_actor>(*answer);
}

}  // namespace troupe::nodes
