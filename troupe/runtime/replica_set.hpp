// The replicas and pipelines that a trainer's function has made.

#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/trainer/non_finite_watch.hpp"
#include "protocol/messages.hpp"
#include "troupe/data_parallel.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/communicator.hpp"
#include "troupe/runtime/pipeline_stage.hpp"
#include "troupe/runtime/program_assignment.hpp"
#include "troupe/runtime/replica.hpp"
#include "troupe/task.hpp"

namespace troupe::runtime {

/// Belongs to a trainer.
class replica_set {
 public:
  using failed = std::function<void(const std::exception_ptr& why)>;

  /// `rank`, `kept`: the trainer's. Requires: `kept` outlives this object.
  replica_set(std::uint32_t rank, const kept_state& kept) : rank_(rank), kept_(kept) {}

  /// Throws `error` if an option is wrong, or a name is in use. `where`: the trainer's device. `slice`: the slice that
  /// `module` is; null: the whole module.
  std::shared_ptr<replica> make(std::shared_ptr<const nn::module> module, std::shared_ptr<tensor_slice> slice,
                                const data_parallel_options& options, const program_assignment& run,
                                kernels::device& where);
  std::shared_ptr<pipeline_stage> add(std::shared_ptr<pipeline_stage> made);
  const std::vector<std::shared_ptr<replica>>& all() const { return replicas_; }

  /// Whether all trainers take steps of a replica together.
  bool is_in_step() const;
  /// Whether a replica has gradients that all trainers sum.
  bool is_reduced() const;
  /// Returns the error of the first NaN or Inf that the host knows in the steps up to this one; empty if it knows none.
  std::optional<error> spoilt(std::uint64_t last_step) const;
  /// Whether passes of a replica exchange numbers with other trainers.
  bool synchronizes() const;
  /// Whether passes of a replica wait for other trainers.
  bool waits_in_passes() const;
  /// Throws `error` if a pipeline's step was not awaited; `what`: the action that needs this.
  void check_steps_awaited(const char* what) const;

  /// Calls `then` when all batches of overlapping steps have come back and are applied.
  void drain(std::function<void()> then, failed on_error);
  /// Calls `then` when the first parts of networks have the weights of all parts. `with`: reaches the other trainers.
  void collect_parts(communicator& with, std::function<void()> then, failed on_error);

  /// What a trainer reports about its networks at the end.
  struct final_state {
    std::uint64_t digest = 0;    ///< of the digests of the networks
    std::vector<float> numbers;  ///< at rank 0: parameters, then buffers
  };
  /// Requires: parts are collected.
  final_state finish() const;

 private:
  task<> drain_all();
  task<> collect_all(communicator& with);

  const std::uint32_t rank_;
  const kept_state& kept_;
  std::vector<std::shared_ptr<replica>> replicas_;
  std::vector<std::shared_ptr<pipeline_stage>> pipelines_;
  std::set<std::string> names_;  ///< given by the user
  running_task collecting_;
  running_task draining_;
};

}  // namespace troupe::runtime
