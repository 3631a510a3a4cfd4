#include "cluster/nodes/node.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <caf/all.hpp>
#include <future>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "actors/common/idle_workers.hpp"
#include "actors/common/inline_execution.hpp"
#include "actors/common/traced_system.hpp"
#include "cluster/links/io_thread.hpp"
#include "cluster/nodes/caf_network.hpp"
#include "cluster/nodes/data_plane.hpp"
#include "cluster/nodes/diagnosis.hpp"
#include "cluster/nodes/end_deadline.hpp"
#include "cluster/nodes/master_connection.hpp"
#include "cluster/nodes/node_actor.hpp"
#include "cluster/nodes/own_stops.hpp"
#include "cluster/nodes/run_end.hpp"
#include "cluster/nodes/thread_memory.hpp"
#include "protocol/errors.hpp"
#include "protocol/messages.hpp"

namespace troupe::nodes {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds look_interval{
    50};  // between polls for a stop request; well below a link's silence timeout

bool wants_stop(const stop_request* user_stop) { return user_stop != nullptr && user_stop->requested(); }

/// Retries, because nodes may start before the master. Returns null if a stop is requested first.
result<links::link_ptr> wait_for_master(boost::asio::io_context& io, const node_options& options,
                                        const std::string& session, const stop_request* user_stop) {
  const auto give_up = clock::now() + options.join_timeout;
  std::chrono::milliseconds pause{50};
  constexpr std::chrono::milliseconds longest_pause{1000};
  for (bool reported = false;; reported = true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(give_up - clock::now());
    const auto time = std::min(options.network.dead_after, std::max(left, look_interval));
    auto made = connect_to_master(io, options.master, options.network, time, "node", session, user_stop);
    if (made || made.error().kind != fault_kind::unreachable) return made;
    if (wants_stop(user_stop)) return nullptr;
    if (clock::now() + pause > give_up)
      return run_fault("{}; tried for {} s (--join-timeout)", made.error().message,
                       static_cast<double>(options.join_timeout.count()) / 1000);
    if (!reported && options.on_note) options.on_note(fmt::format("{}; trying again", made.error().message));
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, longest_pause);
  }
}

links::endpoint data_address(const node_options& options, const links::link_ptr& control) {
  const std::string here = control->local_address().host;
  if (!options.advertise) return {here, 0};
  // Others resolve the advertised name, so listen on all addresses; but if it is a loopback name, stay on loopback.
  const bool stays_here = links::is_loopback(here) && links::is_loopback(options.advertise->host);
  const char* everywhere = here.find(':') == std::string::npos ? "0.0.0.0" : "::";
  return {stays_here ? here : everywhere, options.advertise->port};
}

links::endpoint advertised(const node_options& options, const links::endpoint& listening) {
  if (!options.advertise) return listening;
  return {options.advertise->host, options.advertise->port != 0 ? options.advertise->port : listening.port};
}

/// Limits the time from the master's end to this process's end: part of `dead_after`, but enough for a busy machine.
std::chrono::milliseconds time_to_end(const network_options& network) {
  constexpr std::chrono::milliseconds least{2000};
  return std::max(network.dead_after * 4 / 5, least);
}

std::string overdue(const char* what, std::chrono::milliseconds time) {
  return fmt::format("{}, and a handler of this process (pid {}) has not returned within {} s: the process ends itself",
                     what, ::getpid(), static_cast<double>(time.count()) / 1000);
}

/// Takes part in the run until it is over for this node. `devices`: in the settings of `system`.
node_end take_part(caf::actor_system& system, actors::compute_devices& devices, const node_options& options,
                   const links::link_ptr& control, const std::shared_ptr<control_tunnel>& tunnel,
                   const std::string& session, const stop_request* user_stop, end_deadline& deadline) {
  auto watch = std::make_shared<master_watch>();
  const auto stops = std::make_shared<own_stops>(options.network.dead_after);
  constexpr std::chrono::seconds timeout{10};
  auto master = find_master(system, *tunnel, timeout, [watch, stops](const std::string& why) {
    watch->lost({why, stops->lately()});
  });
  if (!master && wants_stop(user_stop)) return {};
  if (!master)
    return {failure(fault_kind::unreachable, fmt::format("master {}: {}", links::to_string(options.master),
                                                         protocol::describe(master.error())))};

  const network_options& network = options.network;
  data_plane data(system, {.mine = network.mine,
                           .links = {.dead_after = network.dead_after},
                           .handshakes = {.time = network.dead_after},
                           .request_timeout = network.request_timeout});
  auto listening = data.listen(data_address(options, control));
  if (!listening) return {bad_input("data links: {}", listening.error().message)};

  auto promise = std::make_shared<std::promise<node_end>>();
  auto outcome = promise->get_future();
  system.spawn(node,
               node_state::dependencies{*master, watch, &data, options, session, advertised(options, *listening),
                                        [promise](node_end how) { promise->set_value(std::move(how)); }, &devices});
  bool passed_on = false;
  watchdog steps(options.recorder, options.watch.step_timeout);
  while (outcome.wait_for(look_interval) != std::future_status::ready) {
    stops->look();
    data.keep_alive();
    // The node's actor needs a worker thread to notice that, and may get none.
    const auto time = time_to_end(options.network);
    if (const auto gone = watch->lost_for(); gone && *gone > time) deadline.end(overdue("the master is gone", time));
    auto why = steps.look();
    if (!why && options.watch.wanted && options.watch.wanted()) why = signal_to_member;
    if (why) caf::anon_send(*master, msg::trouble{{}, std::move(*why)});
    if (passed_on || !wants_stop(user_stop)) continue;
    passed_on = true;
    caf::anon_send(*master, msg::stop{});
  }
  node_end ended = outcome.get();
  if (!ended.how && wants_stop(user_stop) && data.newest_step() == 0) ended.how = {};  // stopped before it began
  const auto gone = watch->lost_for();
  const auto time = gone ? time_to_end(network) : std::max(network.dead_after, ended.rejoin_within);
  deadline.set(time, overdue(gone ? "the master is gone" : "the run is over", time));
  return ended;
}

}  // namespace

node_end run_node(const node_options& options, const stop_request* user_stop) try {
  std::optional<stop_scope> heeds;
  if (user_stop != nullptr) heeds.emplace(*user_stop);
  const std::string session = links::random_token();
  links::io_thread control;
  const auto connected = wait_for_master(control.io(), options, session, user_stop);
  if (!connected) return {tl::unexpected(connected.error())};
  const links::link_ptr& link = *connected;
  if (link == nullptr) return {};

  // A failure is ignored: a job without large products needs no buffers; any other is refused at its first product.
  if (options.trains && !options.devices.trainers) (void)prepare_products(options.threads, 0);
  end_deadline deadline(options.on_overdue);
  if (auto enough = check_threads(options.threads); !enough) return {tl::unexpected(enough.error())};
  actors::traced_config config;
  config.recorder = options.recorder;
  config.devices = options.devices;
  if (options.trains) config.batch_makers = actors::make_batch_threads(options.batch_threads, options.count);
  config.config_file_path.clear();  // else CAF reads a file of the current directory
  config.set("caf.scheduler.max-threads", worker_threads(options.threads));
  add_network(config);
  run_end end(config);
  caf::actor_system system(config);
  const run_end::announcer over(end);
  const actors::workers_help help(system);
  const auto tunnel = std::make_shared<control_tunnel>(control.io(), link, member_message_bytes_max);
  auto outcome = take_part(system, config.devices, options, link, tunnel, session, user_stop, deadline);
  tunnel->close();
  return outcome;
} catch (const std::system_error& error) {
  if (error.code() != std::errc::resource_unavailable_try_again) throw;
  return {run_fault(
      "the limits of this process (ulimit -v, ulimit -u, pids.max) let it start no further thread; raise them")};
}

}  // namespace troupe::nodes
