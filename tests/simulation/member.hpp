// A simulated process with servers or trainers: joins the leader's run, and rejoins after a loss.

#pragma once

#include <memory>

#include "cluster/nodes/node_actor.hpp"
#include "tests/simulation/sim_control.hpp"
#include "tests/simulation/sim_plane.hpp"
#include "tests/simulation/sim_process.hpp"
#include "tests/simulation/world.hpp"

namespace troupe::simulation {

class member {
 public:
  member(world& where, std::uint32_t number, place_number place);
  ~member();

  sim_process& process() { return process_; }
  bool is_dead() const { return process_.is_dead(); }
  place_number place() const { return place_; }
  bool is_trainer() const { return place_ > where_.what().servers; }
  std::uint32_t rank() const { return place_ - 1 - (is_trainer() ? where_.what().servers : 0); }
  /// The data links of its current part in a run; null without one.
  const std::shared_ptr<sim_plane>& plane() const { return plane_; }

  /// Tries to join until the master admits it.
  void join();

 private:
  void joined(const std::shared_ptr<sim_link>& wire, std::uint64_t run, const caf::node_id& node, caf::actor_id master);
  void over(std::uint64_t part, const nodes::node_end& end);
  void leave();

  world& where_;
  const place_number place_;
  sim_process process_;
  sim_time rejoin_until_{};
  std::uint64_t part_ = 0;  ///< number of runs that it has joined
  std::shared_ptr<sim_control> control_;
  std::shared_ptr<nodes::master_watch> watch_;
  std::shared_ptr<sim_plane> plane_;
  std::shared_ptr<sim_plane> former_plane_;  ///< its node has just ended
  msg::node_actor node_;
};

}  // namespace troupe::simulation
