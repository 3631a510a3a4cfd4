#include "actors/node.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "actors/caf_network.hpp"
#include "actors/control_tunnel.hpp"
#include "actors/introduction.hpp"
#include "actors/master_watch.hpp"
#include "actors/node_actor.hpp"
#include "actors/run_in.hpp"
#include "links/io_thread.hpp"
#include "protocol/errors.hpp"
#include "protocol/inspect.hpp"

namespace troupe {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds look_interval{50};  // at the wish to stop

link_limits limits_of(const network_options& network) { return {.dead_after = network.dead_after}; }

handshake_limits handshakes_of(const network_options& network) { return {.time = network.dead_after}; }

bool wants_stop(const stop_request* wish) { return wish != nullptr && wish->requested(); }

result<link_ptr> connect_once(boost::asio::io_context& io, const node_options& options, const hello& about_me,
                              bool& worth_another_try) {
  std::promise<link_result<link_ptr>> made;
  connect(io, options.master, options.network.mine, about_me, limits_of(options.network),
          handshakes_of(options.network), [&made](link_result<link_ptr> link) { made.set_value(std::move(link)); });
  auto link = made.get_future().get();
  if (link) return std::move(*link);
  worth_another_try = link.error().code == link_errc::unreachable;
  const bool setting = link.error().code == link_errc::bad_setting;
  return tl::unexpected(fault{setting ? fault_kind::input : fault_kind::run,
                              fmt::format("master {}: {}", to_string(options.master), link.error().message)});
}

/// The master may come later than its nodes. Null: a stop was wished before it came.
result<link_ptr> connect_to_master(boost::asio::io_context& io, const node_options& options, const hello& about_me,
                                   const stop_request* stop_wish) {
  const auto give_up = clock::now() + options.join_timeout;
  std::chrono::milliseconds pause{50};
  constexpr std::chrono::milliseconds longest_pause{1000};
  for (bool told = false;; told = true) {
    bool worth_another_try = false;
    auto made = connect_once(io, options, about_me, worth_another_try);
    if (made || !worth_another_try) return made;
    if (wants_stop(stop_wish)) return nullptr;
    if (clock::now() + pause > give_up)
      return run_fault(fmt::format("{}; tried for {} s (--join-timeout)", made.error().message,
                                   static_cast<double>(options.join_timeout.count()) / 1000));
    if (!told && options.on_note) options.on_note(fmt::format("{}; trying again", made.error().message));
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, longest_pause);
  }
}

/// The master's actor, through the tunnel.
caf::expected<master_actor> find_master(caf::actor_system& system, control_tunnel& tunnel,
                                        const std::shared_ptr<master_watch>& watch) {
  const int socket = tunnel.open();
  if (socket < 0) return make_failure(troupe::errc::exception, "the system has no sockets left");
  auto found = std::make_shared<std::promise<caf::expected<caf::strong_actor_ptr>>>();
  ask_for_actor(system, socket,
                [found](caf::expected<caf::strong_actor_ptr> answer) { found->set_value(std::move(answer)); });
  tunnel.start([watch](const link_fault* why) { watch->lost(why != nullptr ? why->message : "it has ended"); });
  auto answer = found->get_future().get();
  if (!answer) return answer.error();
  return caf::actor_cast<master_actor>(*answer);
}

endpoint data_address(const node_options& options, const link_ptr& control) {
  // Any address of this host will do behind a name that others resolve.
  const std::string here = control->local_address().host;
  if (!options.advertise) return {here, 0};
  return {is_loopback(here) ? here : (here.find(':') == std::string::npos ? "0.0.0.0" : "::"), options.advertise->port};
}

endpoint advertised(const node_options& options, const endpoint& listening) {
  if (!options.advertise) return listening;
  return {options.advertise->host, options.advertise->port != 0 ? options.advertise->port : listening.port};
}

/// Takes part until the run is over for this node.
result<void> take_part(caf::actor_system& system, const node_options& options, const link_ptr& control,
                       const std::shared_ptr<control_tunnel>& tunnel, const std::string& session,
                       const stop_request* stop_wish) {
  auto watch = std::make_shared<master_watch>();
  auto master = find_master(system, *tunnel, watch);
  if (!master) return run_fault(fmt::format("master {}: {}", to_string(options.master), describe(master.error())));

  data_plane data(system, {.mine = options.network.mine,
                           .links = limits_of(options.network),
                           .handshakes = handshakes_of(options.network),
                           .request_timeout = options.network.request_timeout});
  auto listening = data.listen(data_address(options, control));
  if (!listening) return bad_input(fmt::format("data links: {}", listening.error().message));

  auto promise = std::make_shared<std::promise<result<void>>>();
  auto outcome = promise->get_future();
  system.spawn(node, node_state::surroundings{*master, watch, &data, options, session, advertised(options, *listening),
                                              [promise](result<void> how) { promise->set_value(std::move(how)); }});
  bool passed_on = false;
  while (outcome.wait_for(look_interval) != std::future_status::ready) {
    if (passed_on || !wants_stop(stop_wish)) continue;
    passed_on = true;
    caf::anon_send(*master, stop{});
  }
  return outcome.get();
}

}  // namespace

result<void> run_node(const node_options& options, const stop_request* stop_wish) {
  const std::string session = random_token();
  io_thread control;
  auto link = connect_to_master(control.io(), options, introduction("node", session), stop_wish);
  if (!link) return tl::unexpected(link.error());
  if (*link == nullptr) return {};
  if (auto differs = first_disagreement(introduction("node", session), (*link)->peer(), "the master"))
    return run_fault(std::move(*differs));

  caf::actor_system_config config;
  config.config_file_path.clear();  // CAF reads a file of the current directory otherwise
  config.set("caf.scheduler.max-threads", options.threads > 0 ? options.threads : std::thread::hardware_concurrency());
  add_network(config);
  caf::actor_system system(config);
  const auto tunnel = std::make_shared<control_tunnel>(control.io(), *link);
  auto outcome = take_part(system, options, *link, tunnel, session, stop_wish);
  tunnel->close();
  return outcome;
}

}  // namespace troupe
