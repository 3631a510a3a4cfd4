// How the master takes checkpoints. All trainers hand over their state after the same step, and wait for the end or
// continue; the servers write their shards as of that step, the master has a thread write the dense part and commit. A
// failed checkpoint is reported, and training continues.
//
//   trying ◀──▶ idle ──▶ gathering ──▶ writing
//                 ▲                       │
//                 └───────────────────────┘
//
//   | from      | to        | when                                                                          |
//   |-----------|-----------|-------------------------------------------------------------------------------|
//   | idle      | trying    | the run begins; the servers try to write into an empty folder                 |
//   | trying    | idle      | they have tried; the folder is removed                                        |
//   | idle      | gathering | the first trainer has handed over its state                                   |
//   | gathering | writing   | all trainers have handed over theirs                                          |
//   | writing   | idle      | all parts are written and committed, or one failed; waiting trainers continue |

#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/common/writing_thread.hpp"
#include "actors/master/membership.hpp"
#include "actors/master/open_requests.hpp"
#include "actors/master/run_figures.hpp"
#include "actors/master/run_plan.hpp"
#include "base/stop_grace.hpp"

namespace troupe::actors {

/// Returns the mean time between failures in seconds, if the time between checkpoints follows from it; else 0.
double mean_time_between_failures(const run_checkpoints& rules, const membership& members);

/// Belongs to the master.
class checkpointing {
 public:
  enum class state : std::uint8_t { idle, trying, gathering, writing };

  checkpointing(open_requests& requests, actor_trace& trace) : requests_(requests), trace_(trace) {}

  /// `report` may be null; it is called with every checkpoint, taken or failed; with the checkpoint of step 0 only if
  /// that failed. Requires: the arguments outlive this object.
  void start(const run_plan& plan, const table_shards& tables, const run_figures& figures,
             std::function<void(const checkpoint_summary&)> report);

  /// At step 0 only the job is saved: resuming from there equals a fresh start.
  void save_beginning();

  /// Makes an empty folder beside the checkpoints, which a server finds only if it shares the folder with this process.
  /// Returns an empty text if nothing is saved or the folder cannot be made.
  std::string folder_to_try();
  /// Removes the folder of `folder_to_try`.
  void tried();

  /// A trainer has handed over its state; `answer` is answered when the checkpoint is written or has failed. Returns an
  /// error if no checkpoint is expected now.
  caf::error add(msg::save_dense&& share, const caf::typed_response_promise<msg::committed>& answer);

  /// A trainer has ended, after a checkpoint if the run saves any; later checkpoints reuse its last share.
  void ended(std::uint32_t rank);

  state now() const { return state_; }
  /// Returns whether training stands still for the checkpoint being written.
  bool holds_up() const {
    return state_ == state::writing &&
           std::ranges::any_of(shares_, [](const auto& one) { return one && !one->goes_on; });
  }
  /// Returns whether that trainer has reached the step of the current checkpoint.
  bool has(std::uint32_t rank) const { return rank < waiting_.size() && (waiting_[rank] || ended_[rank]); }
  /// Returns the ranks of the servers that still have a shard to write.
  std::set<std::uint32_t> servers() const { return {unwritten_.begin(), unwritten_.end()}; }

 private:
  using clock = std::chrono::steady_clock;

  void enter(state next);
  void write_if_complete();
  void write();
  void forget();
  template <class Work, class Then>
  void aside(trace::range_name name, Work work, Then then);
  void ask_for(std::size_t table, const msg::module_ref& shard, const std::string& folder);
  void written(result<model::saved_file> part);
  void finish(std::optional<fault> problem);
  std::uint64_t step() const;
  std::uint64_t step_of(const msg::module_ref& shard) const;
  std::vector<model::tensor_view> dense_views() const;
  model::run_position position() const;
  model::checkpoint_manifest manifest() const;

  open_requests& requests_;
  actor_trace& trace_;
  const run_plan* plan_ = nullptr;
  const table_shards* tables_ = nullptr;
  const run_figures* figures_ = nullptr;
  std::function<void(const checkpoint_summary&)> report_;

  state state_ = state::idle;
  // By rank: the state to save, the answer to a waiting rank, and whether its training has ended.
  std::vector<std::optional<msg::save_dense>> shares_;
  std::vector<std::optional<caf::typed_response_promise<msg::committed>>> waiting_;
  std::vector<bool> ended_;
  std::multiset<std::uint32_t> unwritten_;  ///< the server's rank, once for each shard
  std::size_t parts_missing_ = 0;
  model::run_position position_;
  std::vector<model::saved_file> files_;
  std::map<std::size_t, std::vector<model::table_part>> parts_;  ///< of each table, as reported by its servers
  std::optional<fault> problem_;
  clock::time_point begin_;
  std::optional<uncounted_time> time_to_write_;  ///< while writing
  writing_thread writer_;
};

}  // namespace troupe::actors
