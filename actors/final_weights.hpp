// What a run's weights are at its end: their digest, and if they are asked for the weights themselves.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
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

  /// Rank `rank` has come to the end with these dense weights.
  void add(std::uint32_t rank, msg::trained&& result);
  /// An error if the trainers have not all come to the same weights. Names the step.
  caf::error check() const;
  /// Asks the servers, and calls `then` when all answers are in. What is given must stay.
  void collect(const run_plan& plan, const table_shards& tables, std::function<void()> then);

  /// To be called once, at the end: steps, digest, and the weights that are asked for.
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
  std::vector<std::vector<msg::tensor>> shards_;  // by table, then shard; if asked for
  weights_digest digest_;
};

}  // namespace troupe::actors
