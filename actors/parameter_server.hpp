// The parameter server: holds modules, answers lookups, and applies each step's gradients once, in rank order.
//
// Synchronous mode. Gradients are collected per context (run, step); when every trainer's are complete they are applied
// and the step is committed. A lookup for step k+1 is parked until step k is committed, so no acknowledgement is
// needed. Trainers can be at most one step apart, so two contexts are open at a time; messages beyond are refused.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/remote_module.hpp"
#include "protocol/header.hpp"
#include "protocol/messages.hpp"

namespace troupe {

class parameter_server_state {
 public:
  using pointer = parameter_server_actor::stateful_pointer<parameter_server_state>;

  explicit parameter_server_state(pointer self) : self_(self) {}

  /// For error lines: who, and the last committed step.
  std::string name;
  std::uint64_t step = 0;

  void start(std::uint64_t run, std::uint32_t rank);

  caf::result<module_ref> handle(instantiate& order);
  caf::result<rows> handle(lookup& wanted);
  caf::result<void> handle(gradient& grads);
  caf::result<committed> handle(const optimizer_step& order);
  caf::result<parameter_list> handle(const parameters& query);
  caf::result<module_state> handle(const state_dict& query);
  caf::result<committed> handle(const load_state_dict& order);
  caf::result<tensor> handle(const row_digests& query);
  caf::result<void> handle(const release& order);

 private:
  /// What one trainer has contributed to a step.
  struct contribution {
    std::vector<gradient> parts;
    bool has_batch = false;
    bool complete = false;
  };

  /// The gradients of one step.
  struct context {
    std::vector<contribution> ranks;
    std::uint32_t complete = 0;
    std::vector<std::pair<header, caf::typed_response_promise<committed>>> waiting;
  };

  struct parked_lookup {
    lookup wanted;
    caf::typed_response_promise<rows> promise;
  };

  context& context_of(std::uint64_t at_step) { return contexts_[at_step % contexts_.size()]; }
  caf::error check_context(const header& head) const;
  remote_module* find(std::uint64_t module);
  caf::error unknown(std::uint64_t module) const;
  caf::expected<rows> answer(const lookup& wanted);
  caf::error accept(const gradient& grads);
  caf::error complete(const header& head, std::uint32_t rank, bool has_batch);
  caf::error commit(context& ready);
  void release_parked();
  caf::error refusal(const caf::error& cause) const;

  pointer self_;
  header_source headers_{0, 0};
  std::uint64_t run_ = 0;
  std::uint32_t trainers_ = 0;
  std::uint64_t next_module_ = 1;
  std::map<std::uint64_t, std::unique_ptr<remote_module>> modules_;
  std::array<context, 2> contexts_;
  std::vector<std::uint64_t> last_sequence_;  // by rank: what was sent twice is applied once
  std::vector<parked_lookup> parked_;
  std::vector<const bag_gradient*> ordered_;
};

/// The behavior of server `rank` in run `run`; spawn with this function.
parameter_server_actor::behavior_type parameter_server(parameter_server_state::pointer self, std::uint64_t run,
                                                       std::uint32_t rank);

}  // namespace troupe
