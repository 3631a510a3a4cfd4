// The tables on servers that a trainer's function looks rows up in, and the gradients and optimizer steps that it sends
// the servers.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "actors/sparse_client.hpp"
#include "actors/step_contexts.hpp"
#include "model/exact_sum.hpp"
#include "troupe/future.hpp"
#include "troupe/optimizer.hpp"
#include "troupe/runtime/program_assignment.hpp"
#include "troupe/runtime/remote_table.hpp"
#include "troupe/runtime/tape.hpp"
#include "troupe/runtime/task_requests.hpp"
#include "troupe/runtime/unfinished.hpp"

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
  /// Sends every server of remote members its gradients of the context. `orders_step`: they order the server's
  /// optimizer step. `counts_batch`: false: another trainer sends those of the same batch.
  void send_gradients(const tape& with, const std::vector<trained>& members, bool orders_step, bool counts_batch);

  // -- where the gradient is applied as a whole ------------------------------------------

  /// Asks the servers of remote members for the squared norm of the gradient that they have been sent: parts of `all`.
  void ask_for_norms(const std::vector<trained>& members, const unfinished_ptr& all);
  /// Returns the sum of the squared norms. Requires: all servers have answered.
  double take_squared_norm() { return std::exchange(norm_, {}).value(); }
  /// Orders the optimizer step of these servers, which is part of `all`.
  void order_step(const std::vector<trained>& members, const actors::step_order& order, const unfinished_ptr& all);

  /// The next optimizer step of a server, as its messages name it; and the same, but 0 before the first.
  std::uint64_t step_of(std::uint32_t server) { return steps_[server] + 1; }
  std::uint64_t step_after_last(std::uint32_t server) { return steps_[server] == 0 ? 0 : steps_[server] + 1; }
  /// Whether a lookup has no answer yet.
  bool is_asking() const { return under_way_.use_count() > 1; }
  /// Whether any server is used.
  bool any() const { return !steps_.empty(); }
  /// The steps that each server has been sent gradients for, by its rank; at least one number.
  std::vector<std::uint64_t> steps() const;
  /// The next step sent to a server is the last of the optimizer step under way there, of `accumulate` steps.
  void go_to_last_of(std::uint64_t accumulate) {
    for (auto& [server, count] : steps_)
      if (const std::uint64_t taken = count % accumulate; taken > 0) count += accumulate - taken - 1;
  }
  /// Begins with such steps.
  void resume(const std::vector<std::uint64_t>& steps);

 private:
  /// A server of remote members, and what it is sent.
  struct receiver {
    std::uint32_t rank = 0;
    msg::parameter_server_actor server = {};
    msg::gradient gradient = {};
  };
  /// Returns the servers of remote members by rank, each once, until the next call.
  std::vector<receiver>& servers_of(const std::vector<trained>& members);
  template <class Answer>
  void ask_servers(const std::vector<trained>& members, const unfinished_ptr& all, auto message_at, auto on_answer);

  const task_requests& requests_;
  const program_assignment& assigned_;
  std::map<std::uint32_t, std::uint64_t> steps_;  ///< by server: the optimizer steps sent there
  std::map<std::shared_ptr<const remote_table>, table_client> clients_;
  std::vector<receiver> receivers_;  ///< kept for its memory
  model::exact_sum norm_;            ///< squared, of the servers that have answered
  std::shared_ptr<const char> under_way_ = std::make_shared<const char>();  ///< each lookup under way refers to it
};

/// Returns the reference to a member. Requires: it is on a server.
const reference& reference_of(const trained& one);

}  // namespace troupe::runtime
