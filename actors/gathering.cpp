#include "actors/gathering.hpp"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <caf/all.hpp>
#include <chrono>
#include <condition_variable>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <utility>

#include "actors/actor_name.hpp"
#include "actors/caf_network.hpp"
#include "actors/control_tunnel.hpp"
#include "actors/introduction.hpp"
#include "actors/master.hpp"
#include "links/connect.hpp"
#include "links/io_thread.hpp"
#include "protocol/inspect.hpp"

namespace troupe {

namespace {

/// The control connections of a run, as the master's process has them.
class control_plane {
 public:
  control_plane(caf::actor_system& system, master_actor boss, const run_options& options)
      : system_(system), boss_(std::move(boss)), options_(options) {}

  ~control_plane() {
    thread_.stop();
    listener_.reset();
  }

  control_plane(const control_plane&) = delete;
  control_plane& operator=(const control_plane&) = delete;

  link_result<endpoint> listen();

  /// Waits until all nodes have gone, but not for ever; then turns the others out.
  void see_off();

 private:
  greeting judge(const hello& theirs) const;
  void take(link_ptr wire);
  void left(const std::string& session, const link_fault* why);

  caf::actor_system& system_;
  master_actor boss_;
  const run_options& options_;
  io_thread thread_;
  std::unique_ptr<listener> listener_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<control_tunnel>> tunnels_;  // by session
};

link_result<endpoint> control_plane::listen() {
  const network_options& network = options_.gather->network;
  std::promise<link_result<endpoint>> opened;
  boost::asio::post(thread_.io(), [&] {
    auto made = listener::open(
        thread_.io(), options_.gather->listen, network.mine, {.dead_after = network.dead_after},
        {.time = network.dead_after},
        {.on_hello = [this](const hello& theirs, const endpoint&) { return judge(theirs); },
         .on_link = [this](link_ptr wire) { take(std::move(wire)); },
         .on_rejected =
             [this](const endpoint& from, const link_fault& why) {
               if (options_.observer.on_note)
                 options_.observer.on_note(fmt::format("{} was not let in: {}", to_string(from), why.message));
             }});
    if (!made) return opened.set_value(tl::unexpected(made.error()));
    listener_ = std::move(*made);
    opened.set_value(listener_->address());
  });
  return opened.get_future().get();
}

greeting control_plane::judge(const hello& theirs) const {
  const hello mine = introduction("master", "");
  if (auto differs = first_disagreement(mine, theirs, "the other side")) return tl::unexpected(std::move(*differs));
  return mine;
}

/// Gives a connection to CAF, so that whoever is there finds the master.
void control_plane::take(link_ptr wire) {
  const std::string session(find_item(wire->peer(), "session").value_or(""));
  auto tunnel = std::make_shared<control_tunnel>(thread_.io(), std::move(wire));
  const int socket = tunnel->open();
  if (socket < 0) return tunnel->close();
  {
    const std::lock_guard lock(mutex_);
    tunnels_[session] = tunnel;
  }
  offer_actor(system_, socket, caf::actor_cast<caf::strong_actor_ptr>(boss_), system_.message_types<master_actor>());
  tunnel->start([this, session](const link_fault* why) { left(session, why); });
}

void control_plane::left(const std::string& session, const link_fault* why) {
  caf::anon_send(boss_, node_lost{{}, session, why != nullptr ? why->message : std::string()});
  const std::lock_guard lock(mutex_);
  tunnels_.erase(session);
  changed_.notify_all();
}

void control_plane::see_off() {
  std::unique_lock lock(mutex_);
  constexpr std::chrono::milliseconds longest{2000};
  changed_.wait_for(lock, std::min(longest, options_.gather->network.dead_after / 2),
                    [this] { return tunnels_.empty(); });
  for (const auto& [session, tunnel] : tunnels_) tunnel->close();
  tunnels_.clear();
}

std::uint64_t random_run() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}

}  // namespace

result<run_summary> run_with_nodes(caf::actor_system& system, const run_options& options,
                                   const std::function<result<run_summary>(const master_actor&)>& run_by) {
  const gather_options& gather = *options.gather;
  const master_actor boss = system.spawn(master, random_run(), options.observer, options.checkpoints,
                                         node_rules{gather.network.request_timeout, gather.resume});
  control_plane control(system, boss, options);
  auto where = control.listen();
  if (!where) {
    caf::anon_send_exit(boss, caf::exit_reason::user_shutdown);
    return bad_input(where.error().message);
  }
  if (gather.on_listening) gather.on_listening(*where);
  auto outcome = run_by(boss);
  control.see_off();
  caf::anon_send_exit(boss, caf::exit_reason::user_shutdown);
  return outcome;
}

}  // namespace troupe
