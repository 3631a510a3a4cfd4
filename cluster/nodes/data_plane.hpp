// The data links of one process: accepts and makes them, runs their thread, and finds them by node.

#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "actors/common/inline_execution.hpp"
#include "base/result.hpp"
#include "cluster/links/connect.hpp"
#include "cluster/links/io_thread.hpp"
#include "cluster/nodes/data_links.hpp"
#include "protocol/messages.hpp"

namespace troupe::nodes {

class data_plane final : public data_links {
 public:
  struct options {
    links::credentials mine;
    links::link_limits links;
    links::handshake_limits handshakes;
    std::chrono::milliseconds request_timeout{300'000};
  };

  data_plane(caf::actor_system& system, options how);
  /// Closes the links and ends their thread.
  ~data_plane() override;

  data_plane(const data_plane&) = delete;
  data_plane& operator=(const data_plane&) = delete;

  /// Sends the signs of life that are due, in case an actor blocks the links' thread for long. Thread: any; call it
  /// often.
  void keep_alive();

  /// Accepts links at `where` until all needed links exist. Requires: called once. Thread: any.
  result<links::endpoint> listen(const links::endpoint& where);

  actor_directory& actors() override { return *actors_; }
  void expect(const identity& me, std::vector<msg::peer_node> peers,
              std::function<void(std::uint32_t node, const std::string& why)> on_lost) override;
  void connect(std::function<void(const std::string& problem)> done) override;
  std::uint64_t newest_step() const override;
  data_link_ptr link_to(std::uint32_t node) const override;

 private:
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
  link_rules rules_;
  std::function<void(std::uint32_t, const std::string&)> on_lost_;
  std::function<void(const std::string&)> on_settled_;
  boost::asio::steady_timer expiry_;

  mutable std::mutex mutex_;
  std::map<std::uint32_t, data_link_ptr> links_;
};

}  // namespace troupe::nodes
