// How the master takes checkpoints. All trainers stand still after the same step; the servers write their shards, the
// master writes the dense part and commits. A checkpoint that cannot be taken is reported, and training goes on.
//
//   trying ◀──▶ idle ──▶ gathering ──▶ writing
//                 ▲                       │
//                 └───────────────────────┘
//
//   | from      | to        | when                                                                          |
//   |-----------|-----------|-------------------------------------------------------------------------------|
//   | idle      | trying    | the run begins: there is an empty folder for the servers to try to write in    |
//   | trying    | idle      | they have tried: it is gone                                                   |
//   | idle      | gathering | the first trainer stands still                                                |
//   | gathering | writing   | all trainers do                                                               |
//   | writing   | idle      | all parts are written and committed, or one could not be: the trainers go on   |

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/membership.hpp"
#include "actors/open_requests.hpp"
#include "actors/run_figures.hpp"
#include "actors/run_plan.hpp"
#include "model/checkpoint/tensors.hpp"

namespace troupe::actors {

/// Belongs to the master.
class checkpointing {
 public:
  enum class state : std::uint8_t { idle, trying, gathering, writing };

  checkpointing(open_requests& requests, actor_trace& trace) : requests_(requests), trace_(trace) {}

  /// `report` is called with every checkpoint that was taken or could not be, and with one of step 0 that could not;
  /// may be null. What is given must stay.
  void start(const run_plan& plan, const table_shards& tables, const run_figures& figures,
             std::function<void(const checkpoint_summary&)> report);

  /// Of step 0 there is nothing to save but the job: going on from it is starting anew.
  void save_beginning();

  /// An empty folder beside the checkpoints: only who shares the folder with this process finds it. Empty text: nothing
  /// is saved, or it cannot be made.
  std::string folder_to_try();
  /// Removes it.
  void tried();

  /// A trainer stands still; `go_on` is answered when it can go on. An error: it must not, or not now.
  caf::error add(msg::save_dense&& share, const caf::typed_response_promise<msg::committed>& go_on);

  state now() const { return state_; }
  /// Whether that trainer has come to the step of the checkpoint under way.
  bool has(std::uint32_t rank) const { return rank < waiting_.size() && waiting_[rank].has_value(); }
  /// The ranks of the servers that have not written a shard of theirs yet.
  std::set<std::uint32_t> servers() const { return {unwritten_.begin(), unwritten_.end()}; }

 private:
  using clock = std::chrono::steady_clock;

  /// A trainer that stands still.
  struct waiting_trainer {
    msg::save_dense share;
    caf::typed_response_promise<msg::committed> go_on;
  };

  void enter(state next);
  void write();
  void ask_for(const msg::module_ref& shard, const std::string& folder);
  void written(result<model::saved_file> part);
  void finish(std::optional<fault> problem);
  std::uint64_t step() const { return waiting_.front()->share.head.step; }
  std::vector<model::tensor_view> dense_views() const;
  model::checkpoint_manifest manifest() const;

  open_requests& requests_;
  actor_trace& trace_;
  const run_plan* plan_ = nullptr;
  const table_shards* tables_ = nullptr;
  const run_figures* figures_ = nullptr;
  std::function<void(const checkpoint_summary&)> report_;

  state state_ = state::idle;
  std::vector<std::optional<waiting_trainer>> waiting_;  // by rank
  std::multiset<std::uint32_t> unwritten_;               ///< the server's rank for each shard
  std::size_t parts_missing_ = 0;
  std::vector<model::saved_file> files_;
  std::optional<fault> problem_;
  clock::time_point begin_;
};

}  // namespace troupe::actors
