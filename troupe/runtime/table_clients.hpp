// The tables on servers that a trainer's function looks rows up in, and the gradients and optimizer steps that it sends
// the servers.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "actors/sparse_client.hpp"
#include "troupe/future.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/runtime/program_assignment.hpp"
#include "troupe/runtime/remote_table.hpp"
#include "troupe/runtime/tape.hpp"
#include "troupe/runtime/task_requests.hpp"

namespace troupe::runtime {

/// Belongs to a trainer.
class table_clients {
 public:
  /// Requires: the arguments outlive this object.
  table_clients(const task_requests& requests, const program_assignment& assigned)
      : requests_(requests), assigned_(assigned) {}

  /// Returns the pooled rows of a batch. `deadline`: null: that of the run's requests.
  future<tensor> look_up(tape& on, const std::shared_ptr<const remote_table>& table,
                         std::span<const std::int64_t> indices, std::span<const std::int64_t> offsets,
                         std::optional<std::chrono::milliseconds> deadline);
  /// Sends every server of remote members its gradients of the context, which order its optimizer step.
  void send_gradients(const tape& with, const std::vector<trained>& members);

  /// The next optimizer step of a server, as its messages name it; and the same, but 0 before the first.
  std::uint64_t step_of(std::uint32_t server) { return steps_[server] + 1; }
  std::uint64_t step_after_last(std::uint32_t server) { return steps_[server] == 0 ? 0 : steps_[server] + 1; }
  /// Whether any server is used.
  bool any() const { return !steps_.empty(); }
  /// The steps that each server has been sent gradients for, by its rank; at least one number.
  std::vector<std::uint64_t> steps() const;
  /// Begins with such steps.
  void resume(const std::vector<std::uint64_t>& steps);

 private:
  const task_requests& requests_;
  const program_assignment& assigned_;
  std::map<std::uint32_t, std::uint64_t> steps_;  ///< by server: the optimizer steps sent there
  std::map<std::shared_ptr<const remote_table>, actors::sparse_client> clients_;
};

/// Returns the reference to a member. Requires: it is on a server.
const reference& reference_of(const trained& one);

}  // namespace troupe::runtime
