// The data links of one process: accepts and makes them, runs their thread, and finds them by node.

#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "actors/inline_execution.hpp"
#include "base/result.hpp"
#include "links/connect.hpp"
#include "links/io_thread.hpp"
#include "nodes/data_link.hpp"
#include "protocol/messages.hpp"

namespace troupe::nodes {

class data_plane {
 public:
  struct options {
    links::credentials mine;
    links::link_limits links;
    links::handshake_limits handshakes;
    std::chrono::milliseconds request_timeout{300'000};
  };

  /// This process's identity within its run.
  struct identity {
    std::uint64_t run = 0;
    std::uint32_t node = 0;
    std::uint32_t incarnation = 0;
    /// Servers have links to each other.
    bool servers_talk = false;
  };

  data_plane(caf::actor_system& system, options how);
  /// Closes the links and ends their thread.
  ~data_plane();

  data_plane(const data_plane&) = delete;
  data_plane& operator=(const data_plane&) = delete;

  /// Accepts links at `where` until all needed links exist. Requires: called once. Thread: any.
  result<links::endpoint> listen(const links::endpoint& where);

  /// The actors that other processes may send to.
  actor_directory& actors() { return *actors_; }

  /// Accepts links from `peers` only, each with its certificate in that list. Calls `on_lost` on the links' thread when
  /// a needed link ends.
  void expect(const identity& me, std::vector<msg::peer_node> peers,
              std::function<void(std::uint32_t node, const std::string& why)> on_lost);

  /// Makes the links that this process dials. Calls `done` once, on the links' thread: with an empty text when all
  /// links exist, those that others dial too, else with the error.
  void connect(std::function<void(const std::string& problem)> done);

  /// Returns the newest step of which this process has sent a message. Thread: any.
  std::uint64_t newest_step() const;

  /// Returns null if there is none. Thread: any.
  data_link_ptr link_to(std::uint32_t node) const;

 private:
  links::hello_reply judge(const links::hello& theirs, const std::string& certificate) const;
  links::hello about_me() const;
  const msg::peer_node* find(std::uint32_t node) const;
  bool need_a_link(const msg::peer_node& a, const msg::peer_node& b) const;
  const msg::peer_node* myself() const { return find(me_.node); }
  void dial(std::uint32_t node, std::chrono::steady_clock::time_point give_up);
  void dialled(std::uint32_t node, std::chrono::steady_clock::time_point give_up, result<links::link_ptr> made);
  void add(std::uint32_t node, links::link_ptr wire);
  void settle(const std::string& problem);
  void settle_if_complete();
  void expire_later();

  caf::actor_system& system_;
  const options how_;
  const std::shared_ptr<actor_directory> actors_ = std::make_shared<actor_directory>();
  links::io_thread thread_;

  // Used on `thread_` only.
  const std::shared_ptr<actors::inline_execution> unit_;
  std::unique_ptr<links::listener> listener_;
  identity me_;
  std::vector<msg::peer_node> peers_;
  std::function<void(std::uint32_t, const std::string&)> on_lost_;
  std::function<void(const std::string&)> on_settled_;
  std::set<std::uint32_t> missing_;  ///< nodes without a link yet
  boost::asio::steady_timer expiry_;

  mutable std::mutex mutex_;
  std::map<std::uint32_t, data_link_ptr> links_;
};

}  // namespace troupe::nodes
