// How a run's tables come into being: made shard by shard on the servers, then filled with the weights that a
// checkpoint or a reference run brings, where there are any.
//
//   none ──▶ making ──▶ filling ──▶ ready
//     └────────┴────────────────────▲
//
//   | from    | to      | when                                                        |
//   |---------|---------|-------------------------------------------------------------|
//   | none    | making  | `start`                                                     |
//   | none    | ready   | `start`, of a model without tables                          |
//   | making  | filling | all shards are made, and weights are given                  |
//   | making  | ready   | all shards are made, and have the initial weights           |
//   | filling | ready   | all servers have taken in the given weights                 |

#pragma once

#include <cstdint>
#include <functional>

#include "actors/membership.hpp"
#include "actors/open_requests.hpp"
#include "actors/run_plan.hpp"

namespace troupe::actors {

/// Belongs to the master.
class table_setup {
 public:
  enum class state : std::uint8_t { none, making, filling, ready };

  table_setup(open_requests& requests, actor_trace& trace) : requests_(requests), trace_(trace) {}

  /// Makes the tables of `plan`, which must stay, on these servers, and calls `then`, once, when they are ready. An
  /// error of a server is told by the requests.
  void start(const run_plan& plan, const std::vector<msg::parameter_server_actor>& servers, std::function<void()> then);

  state now() const { return state_; }
  /// References that have not come yet are null.
  const table_shards& tables() const { return tables_; }

 private:
  void enter(state next);
  void fill();
  void restore();
  void load(const model::initial_weights& given);
  void finish();

  open_requests& requests_;
  actor_trace& trace_;
  const run_plan* plan_ = nullptr;
  std::function<void()> then_;
  state state_ = state::none;
  table_shards tables_;
};

}  // namespace troupe::actors
