// How the master takes checkpoints. All trainers pause after the same step; the servers write their shards, the master
// writes the dense part and commits. A failed checkpoint is reported, and training continues.
//
//   trying ◀──▶ idle ──▶ gathering ──▶ writing
//                 ▲                       │
//                 └───────────────────────┘
//
//   | from      | to        | when                                                                          |
//   |-----------|-----------|-------------------------------------------------------------------------------|
//   | idle      | trying    | the run begins; the servers try to write into an empty folder                 |
//   | trying    | idle      | they have tried; the folder is removed                                        |
//   | idle      | gathering | the first trainer has paused                                                  |
//   | gathering | writing   | all trainers have paused                                                      |
//   | writing   | idle      | all parts are written and committed, or one failed; the trainers continue     |

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/membership.hpp"
#include "actors/open_requests.hpp"
#include "actors/run_figures.hpp"
#include "actors/run_plan.hpp"

namespace troupe::actors {

/// Belongs to the master.
class checkpointing {
 public:
  enum class state : std::uint8_t { idle, trying, gathering, writing };

  checkpointing(open_requests& requests, actor_trace& trace) : requests_(requests), trace_(trace) {}

  /// Requires: the arguments outlive this object. `report` may be null; it is called with every checkpoint taken or
  /// failed, and with one of step 0 only if that failed.
  void start(const run_plan& plan, const table_shards& tables, const run_figures& figures,
             std::function<void(const checkpoint_summary&)> report);

  /// At step 0 only the job is saved: resuming from it is the same as a fresh start.
  void save_beginning();

  /// Makes an empty folder beside the checkpoints, which a server finds only if it shares the folder with this process.
  /// Returns an empty text if nothing is saved or the folder cannot be made.
  std::string folder_to_try();
  /// Removes that folder.
  void tried();

  /// A trainer has paused; `go_on` is answered when it may continue. Returns an error if it must not pause, or not now.
  caf::error add(msg::save_dense&& share, const caf::typed_response_promise<msg::committed>& go_on);

  /// A trainer has ended, after a checkpoint if the run saves any: later ones have its last share.
  void ended(std::uint32_t rank);

  state now() const { return state_; }
  /// Returns whether that trainer has reached the step of the checkpoint under way.
  bool has(std::uint32_t rank) const { return rank < waiting_.size() && (waiting_[rank] || ended_[rank]); }
  /// Returns the ranks of the servers that still have a shard to write.
  std::set<std::uint32_t> servers() const { return {unwritten_.begin(), unwritten_.end()}; }

 private:
  using clock = std::chrono::steady_clock;

  void enter(state next);
  void write_if_complete();
  void write();
  void ask_for(std::size_t table, const msg::module_ref& shard, const std::string& folder);
  void written(result<model::saved_file> part);
  void finish(std::optional<fault> problem);
  std::uint64_t step() const;
  std::uint64_t step_of(const msg::module_ref& shard) const;
  std::vector<model::tensor_view> dense_views() const;
  model::checkpoint_manifest manifest() const;

  open_requests& requests_;
  actor_trace& trace_;
  const run_plan* plan_ = nullptr;
  const table_shards* tables_ = nullptr;
  const run_figures* figures_ = nullptr;
  std::function<void(const checkpoint_summary&)> report_;

  state state_ = state::idle;
  // By rank: what it saves, whom to tell to go on, and whether its training has ended.
  std::vector<std::optional<msg::save_dense>> shares_;
  std::vector<std::optional<caf::typed_response_promise<msg::committed>>> waiting_;
  std::vector<bool> ended_;
  std::multiset<std::uint32_t> unwritten_;  ///< the server's rank for each shard
  std::size_t parts_missing_ = 0;
  std::vector<model::saved_file> files_;
  std::map<std::size_t, std::vector<model::table_part>> parts_;  ///< of each table, as its servers tell them
  std::optional<fault> problem_;
  clock::time_point begin_;
};

}  // namespace troupe::actors
