// Creates a run's tables: makes them shard by shard on the servers, then loads the weights of a checkpoint or a
// reference run, if there are any.
//
//   none ──▶ making ──▶ filling ──▶ ready
//     └────────┴────────────────────▲
//
//   | from    | to      | when                                                        |
//   |---------|---------|-------------------------------------------------------------|
//   | none    | making  | `start`                                                     |
//   | none    | ready   | `start`, for a model without tables                         |
//   | making  | filling | all shards are made, and there are weights to load          |
//   | making  | ready   | all shards are made, and keep their initial weights         |
//   | filling | ready   | all servers have loaded the weights                         |

#pragma once

#include <cstdint>
#include <functional>

#include "actors/master/membership.hpp"
#include "actors/master/open_requests.hpp"
#include "actors/master/run_plan.hpp"

namespace troupe::actors {

/// Belongs to the master.
class table_setup {
 public:
  enum class state : std::uint8_t { none, making, filling, ready };

  table_setup(open_requests& requests, actor_trace& trace) : requests_(requests), trace_(trace) {}

  /// Makes the tables of `plan` on `servers`, and calls `then` once when they are ready. Errors of the servers are
  /// passed to the `complaint` of the requests. Requires: `plan` outlives this object.
  void start(const run_plan& plan, const std::vector<msg::parameter_server_actor>& servers, std::function<void()> then);

  state now() const { return state_; }
  /// References that have not arrived are null.
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
