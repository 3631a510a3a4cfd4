// The data links of a simulated process: real links (cluster/nodes/data_link.hpp) over simulated connections.

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/common/inline_execution.hpp"
#include "cluster/nodes/data_links.hpp"
#include "tests/simulation/sim_link.hpp"

namespace troupe::simulation {

class world;

class sim_plane final : public nodes::data_links, public std::enable_shared_from_this<sim_plane> {
 public:
  /// `home`: the process; `system` has its actors.
  sim_plane(world& where, event_owner& home, caf::actor_system& system, std::chrono::milliseconds request_timeout);
  ~sim_plane() override;

  /// Makes this process reachable at the returned address.
  std::string listen();
  /// Closes the links.
  void close();

  nodes::actor_directory& actors() override { return *actors_; }
  void expect(const identity& me, std::vector<msg::peer_node> peers,
              std::function<void(std::uint32_t, const std::string&)> on_lost) override;
  void connect(std::function<void(const std::string&)> done) override;
  std::uint64_t newest_step() const override;
  nodes::data_link_ptr link_to(std::uint32_t node) const override;

  std::uint64_t run() const { return run_; }
  /// The link to the process of a server or trainer; null without one.
  std::shared_ptr<sim_link> wire_to(bool trains, std::uint32_t rank) const {
    const auto known = wires_.find({trains, rank});
    return known == wires_.end() ? nullptr : known->second;
  }

  event_owner& home() const { return home_; }
  bool is_listening() const { return is_listening_; }
  /// Returns the reply to the hello of a process that connects.
  links::hello_reply check_hello(const links::hello& theirs) const { return rules_.check_hello(theirs, ""); }
  void accept(const links::hello& theirs, std::shared_ptr<sim_link> wire);

 private:
  void dial(std::uint32_t node, sim_time give_up);
  void add(std::uint32_t node, std::shared_ptr<sim_link> wire);
  void plant_old_messages(const msg::peer_node& peer, sim_link& wire);
  void plant_old_rows();
  void settle(const std::string& problem);
  void settle_if_complete();
  void expire_later();

  world& where_;
  event_owner& home_;
  caf::actor_system& system_;
  const std::chrono::milliseconds request_timeout_;
  std::shared_ptr<nodes::actor_directory> actors_ = std::make_shared<nodes::actor_directory>();
  std::shared_ptr<actors::inline_execution> unit_;
  std::string address_;
  bool is_listening_ = false;
  bool is_closed_ = false;
  nodes::link_rules rules_;
  std::function<void(std::uint32_t, const std::string&)> on_lost_;
  std::function<void(const std::string&)> on_settled_;
  std::map<std::uint32_t, nodes::data_link_ptr> links_;
  std::map<std::pair<bool, std::uint32_t>, std::shared_ptr<sim_link>> wires_;  ///< by role and first rank
  std::uint64_t run_ = 0;
};

}  // namespace troupe::simulation
