// The tables on servers that a trainer's function looks rows up in, and the gradients and optimizer steps that it sends
// to the servers.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "actors/server/step_contexts.hpp"
#include "actors/trainer/sparse_client.hpp"
#include "model/exact_sum.hpp"
#include "troupe/future.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/runtime/completion.hpp"
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

  /// Returns the pooled rows of a batch. `deadline`: null for the run's request timeout.
  future<tensor> look_up(tape& on, const std::shared_ptr<const remote_table>& table,
                         std::span<const std::int64_t> indices, std::span<const std::int64_t> offsets,
                         std::optional<std::chrono::milliseconds> deadline);
  /// Sends every server of remote members its gradients of the context. `orders_step`: with the order for the server's
  /// optimizer step. `counts_batch`: false if another trainer sends those of the same batch.
  void send_gradients(const tape& with, const std::vector<trained>& members, bool orders_step, bool counts_batch);

  // -- whole gradients --------------------------------------------------------------------

  /// Requests the squared norm of the sent gradient from the servers of remote members, as parts of `all`.
  void ask_for_norms(const std::vector<trained>& members, const completion_ptr& all);
  /// Returns the sum of the squared norms. Requires: all servers have answered.
  double take_squared_norm() { return std::exchange(norm_, {}).value(); }
  /// Orders the optimizer step of these servers, as a part of `all`.
  void order_step(const std::vector<trained>& members, const actors::step_order& order, const completion_ptr& all);

  /// The number of a server's next optimizer step in its messages; and the same, but 0 before the first.
  std::uint64_t step_of(std::uint32_t server) { return steps_[server] + 1; }
  std::uint64_t step_after_last(std::uint32_t server) { return steps_[server] == 0 ? 0 : steps_[server] + 1; }
  /// Whether a lookup is pending.
  bool is_asking() const { return under_way_.use_count() > 1; }
  /// Whether any server is used.
  bool any() const { return !steps_.empty(); }
  /// The number of steps that gradients were sent for, by server rank; at least one number.
  std::vector<std::uint64_t> steps() const;
  /// Advances to the last of the `accumulate` steps of each server's current optimizer step.
  void go_to_last_of(std::uint64_t accumulate) {
    for (auto& [server, count] : steps_)
      if (const std::uint64_t taken = count % accumulate; taken > 0) count += accumulate - taken - 1;
  }
  /// Begins with these steps.
  void resume(const std::vector<std::uint64_t>& steps);

 private:
  /// A server of remote members, and the gradient for it.
  struct receiver {
    std::uint32_t rank = 0;
    msg::parameter_server_actor server = {};
    msg::gradient gradient = {};
  };
  /// Returns the servers of remote members by rank, each once. Valid until the next call.
  std::vector<receiver>& servers_of(const std::vector<trained>& members);
  template <class Answer>
  void ask_servers(const std::vector<trained>& members, const completion_ptr& all, auto message_at, auto on_answer);

  const task_requests& requests_;
  const program_assignment& assigned_;
  std::map<std::uint32_t, std::uint64_t> steps_;  ///< by server: the steps sent there
  std::map<std::shared_ptr<const remote_table>, table_client> clients_;
  std::vector<receiver> receivers_;  ///< kept to reuse its memory
  model::exact_sum norm_;            ///< squared, of the servers that have answered
  std::shared_ptr<const char> under_way_ = std::make_shared<const char>();  ///< each pending lookup refers to it
};

/// Returns the reference to a member. Requires: it is on a server.
const reference& reference_of(const trained& one);

}  // namespace troupe::runtime
