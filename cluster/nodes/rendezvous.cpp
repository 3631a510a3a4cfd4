#include "cluster/nodes/rendezvous.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_future.hpp>
#include <caf/all.hpp>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "actors/master/master.hpp"
#include "base/text.hpp"
#include "cluster/links/connect.hpp"
#include "cluster/links/io_thread.hpp"
#include "cluster/nodes/caf_network.hpp"
#include "cluster/nodes/control_tunnel.hpp"
#include "cluster/nodes/handshake_info.hpp"
#include "cluster/nodes/own_stops.hpp"
#include "cluster/nodes/rejection_log.hpp"

namespace troupe::nodes {

namespace {

/// Returns the session by which a connection introduced itself.
std::string session_of(const links::hello& theirs) {
  return std::string(links::find_item(theirs, "session").value_or(""));
}

/// The certificates of control connections, by session. Thread: any.
class shown_certificates {
 public:
  void set(const std::string& session, const std::string& certificate) {
    const std::lock_guard lock(mutex_);
    all_[session] = certificate;
  }

  void forget(const std::string& session) {
    const std::lock_guard lock(mutex_);
    all_.erase(session);
  }

  std::string of(const std::string& session) const {
    const std::lock_guard lock(mutex_);
    const auto known = all_.find(session);
    return known == all_.end() ? std::string() : known->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::string> all_;
};

/// The control connections of a run, in the master's process.
class control_plane {
 public:
  control_plane(caf::actor_system& system, msg::master_actor boss, const run_options& options,
                std::shared_ptr<shown_certificates> certificates, const std::shared_ptr<own_stops>& stops)
      : system_(system),
        boss_(std::move(boss)),
        options_(options),
        certificates_(std::move(certificates)),
        summary_(thread_.io()),
        looks_(thread_.io()) {
    boost::asio::post(thread_.io(), [this, stops] { look_regularly(looks_, stops); });
  }

  ~control_plane() {
    thread_.stop();
    listener_.reset();
    note(rejection_log_.summary());
  }

  control_plane(const control_plane&) = delete;
  control_plane& operator=(const control_plane&) = delete;

  result<std::vector<links::endpoint>> listen() {
    const network_options& network = options_.gather->network;
    listening_sockets own;
    const listening_sockets* at = options_.gather->sockets.get();
    if (at == nullptr) {
      TROUPE_SET(own, links::listen_at(options_.gather->listen));
      at = &own;
    }
    for (const std::string& why : at->left_out) note("not listening at " + why);
    const auto open = [&]() -> result<std::vector<links::endpoint>> {
      const links::link_limits limits = control_tunnel::limits(network.dead_after);
      const links::handshake_limits handshakes{.time = network.dead_after};
      const links::listener::callbacks what{
          .on_hello = [this](const links::hello& theirs, auto&&...) { return check_hello(theirs); },
          .on_link = [this](links::link_ptr wire) { take(std::move(wire)); },
          .on_rejected = [this](const links::endpoint&, const fault& why) { turn_away(why); }};
      TROUPE_SET(listener_, links::listener::adopt(thread_.io(), *at, network.mine, limits, handshakes, what));
      return listener_->addresses();
    };
    return boost::asio::post(thread_.io(), boost::asio::use_future(open)).get();
  }

  /// Accepts no more connections and waits a limited time for all nodes to leave; then closes the remaining
  /// connections.
  void see_off() {
    // Members that already come back belong to the next attempt: they wait at its port.
    boost::asio::post(thread_.io(), boost::asio::use_future([this] { listener_.reset(); })).get();
    std::unique_lock lock(mutex_);
    constexpr std::chrono::milliseconds longest{2000};
    changed_.wait_for(lock, std::min(longest, options_.gather->network.dead_after / 2),
                      [this] { return tunnels_.empty(); });
    for (const auto& [session, tunnel] : tunnels_) tunnel->close();
    tunnels_.clear();
  }

 private:
  links::hello_reply check_hello(const links::hello& theirs) {
    const links::hello mine = handshake_info("master", "");
    if (auto differs = links::first_disagreement(mine, theirs, "the other side")) return bad_input(std::move(*differs));
    const std::lock_guard lock(mutex_);
    if (tunnels_.contains(session_of(theirs)))
      return bad_input("its session {} is that of another connection", printable(session_of(theirs)));
    return mine;
  }

  /// Gives a connection to CAF and offers the master on it.
  void take(links::link_ptr wire) {
    const std::string session = session_of(wire->peer());
    const bool is_client = links::find_item(wire->peer(), "purpose") == "client";
    const std::string certificate = wire->peer_certificate();
    const auto tunnel = std::make_shared<control_tunnel>(
        thread_.io(), std::move(wire), is_client ? client_message_bytes_max : member_message_bytes_max);
    {
      const std::lock_guard lock(mutex_);
      // Two peers of one session may both pass `check_hello` before either is here.
      if (!tunnels_.try_emplace(session, tunnel).second) return tunnel->close();
    }
    certificates_->set(session, certificate);
    const auto socket = tunnel->open();
    if (!socket) {
      // The system has no descriptor left: members that are still missing would find none either.
      if (!is_client) caf::anon_send(boss_, msg::give_up{{}, "a member cannot be accepted: " + socket.error().message});
      left(session, &socket.error());
      return tunnel->close();
    }
    offer_actor(system_, connection_of(system_, *socket), caf::actor_cast<caf::strong_actor_ptr>(boss_),
                system_.message_types<msg::master_actor>());
    tunnel->start([this, session](const fault* why) { left(session, why); });
  }

  void left(const std::string& session, const fault* why) {
    caf::anon_send(boss_, msg::node_lost{{}, session, why != nullptr ? why->message : std::string()});
    certificates_->forget(session);
    const std::lock_guard lock(mutex_);
    tunnels_.erase(session);
    changed_.notify_all();
  }

  void turn_away(const fault& why) {
    const bool was_due = rejection_log_.due().has_value();
    note(rejection_log_.add("a connection was not accepted: " + why.message, rejection_log::clock::now()));
    const auto due = rejection_log_.due();
    if (!due || was_due) return;
    summary_.expires_at(*due);
    summary_.async_wait([this](const boost::system::error_code& cancelled) {
      if (!cancelled) note(rejection_log_.summary());
    });
  }

  void note(const std::optional<std::string>& line) const {
    if (line && options_.observer.on_note) options_.observer.on_note(*line);
  }

  caf::actor_system& system_;
  msg::master_actor boss_;
  const run_options& options_;
  const std::shared_ptr<shown_certificates> certificates_;
  links::io_thread thread_;
  std::unique_ptr<links::listener> listener_;

  // Used on `thread_` only.
  rejection_log rejection_log_;
  boost::asio::steady_timer summary_;
  boost::asio::steady_timer looks_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<control_tunnel>> tunnels_;  // by session
};

}  // namespace

result<actors::run_summary> run_with_nodes(
    caf::actor_system& system, std::uint64_t run, const actors::planner& plan, const run_options& options,
    const std::function<result<actors::run_summary>(const msg::master_actor&)>& run_by) {
  const gather_options& gather = *options.gather;
  const auto certificates = std::make_shared<shown_certificates>();
  const auto stops = std::make_shared<own_stops>(gather.network.dead_after);
  actors::node_rules rules = gather;
  rules.request_timeout = gather.network.request_timeout;
  rules.certificate_of = [certificates](const std::string& session) { return certificates->of(session); };
  rules.stopped_lately = [stops] { return stops->lately(); };
  const msg::master_actor boss =
      system.spawn(actors::master, run, options.observer, options.checkpoints, std::optional(std::move(rules)), plan);
  control_plane control(system, boss, options, certificates, stops);
  auto where = control.listen();
  if (!where) {
    caf::anon_send_exit(boss, caf::exit_reason::user_shutdown);
    if (stop_asked()) return unbegun(options);
    return bad_input(where.error().message);
  }
  if (gather.on_listening) gather.on_listening(*where);
  auto outcome = run_by(boss);
  control.see_off();
  caf::anon_send_exit(boss, caf::exit_reason::user_shutdown);
  return outcome;
}

}  // namespace troupe::nodes
