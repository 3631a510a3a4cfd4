// The simulated process with the master: begins attempts until one succeeds or another would be useless.

#pragma once

#include <map>
#include <memory>
#include <string>

#include "actors/master/master.hpp"
#include "model/checkpoint/resume.hpp"
#include "tests/simulation/sim_control.hpp"
#include "tests/simulation/sim_process.hpp"
#include "tests/simulation/world.hpp"

namespace troupe::simulation {

class leader {
 public:
  leader(world& where, std::uint32_t number);
  ~leader();

  sim_process& process() { return process_; }
  const msg::master_actor& master() const { return boss_; }
  std::uint64_t run_number() const { return run_; }

  void begin_attempt();
  /// A member connects. `session`: the member's name for this connection.
  result<void> accept(const std::shared_ptr<sim_link>& wire, place_number place, const std::string& session);

 private:
  result<actors::run_checkpoints> open_checkpoints();
  actors::run_observer observer();
  std::vector<model::setting> job_from(std::uint64_t step);
  void attempt_ended(const msg::run_result& result);
  void attempt_failed(const caf::error& why);
  void begin_next();
  void see_off();
  void look_for_members(std::uint64_t attempt);

  world& where_;
  std::uint64_t run_ = 0;
  std::uint32_t trainers_ = 0;  ///< in this attempt
  std::string lost_;            ///< why the last attempt failed
  msg::master_actor boss_;
  std::weak_ptr<model::checkpoint_store> store_;
  std::map<std::string, std::shared_ptr<sim_control>> controls_;  ///< by session
  std::map<std::string, place_number> places_;                    ///< by session
  std::map<place_number, sim_time> absent_since_;
  sim_process process_;  // declared last: its actors end with it, and may use all other members
};

}  // namespace troupe::simulation
