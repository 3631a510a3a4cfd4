// A run's final weights: their digest, and the weights themselves if requested.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "actors/membership.hpp"
#include "actors/open_requests.hpp"
#include "actors/run_plan.hpp"
#include "actors/weights.hpp"

namespace troupe::actors {

/// Belongs to the master.
class final_weights {
 public:
  final_weights(open_requests& requests, actor_trace& trace) : requests_(requests), trace_(trace) {}

  /// Rank `rank` has finished with these dense weights.
  void add(std::uint32_t rank, msg::trained&& result);
  /// Returns an error that names the step unless all trainers finished with the same weights.
  caf::error check() const;
  /// Requests digests and weights from the servers, and calls `then` when all have answered. Requires: arguments
  /// outlive this.
  void collect(const run_plan& plan, const table_shards& tables, std::function<void()> then);

  /// Call once, at the end: fills in steps, digest, and the weights if requested.
  void fill(msg::run_result& result);

 private:
  void ask_for_digests();
  std::uint64_t step() const { return trained_.front().steps; }

  open_requests& requests_;
  actor_trace& trace_;
  const run_plan* plan_ = nullptr;
  const table_shards* tables_ = nullptr;
  std::function<void()> then_;
  std::vector<msg::trained> trained_;             // by rank
  std::vector<std::vector<msg::tensor>> shards_;  // by table, then shard; if requested
  weights_digest digest_;
};

}  // namespace troupe::actors
