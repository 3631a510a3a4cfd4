// The parameter server's checkpoints: a separate thread writes the state that modules keep (`server_checkpoint`).
// Optimizer steps continue meanwhile, and wait when there is no memory left for copies of what they change.

#include <utility>

#include "actors/common/inline_execution.hpp"
#include "actors/server/module_list.hpp"
#include "actors/server/parameter_server.hpp"
#include "model/memory.hpp"

namespace troupe::actors {

/// Begins a checkpoint of the state after optimizer step `update`.
void parameter_server_state::begin_checkpoint(std::uint64_t update) {
  checkpoint_.begin(update, [this, me = caf::actor_cast<caf::weak_actor_ptr>(self_)] {
    if (const auto strong = caf::actor_cast<caf::strong_actor_ptr>(me)) run_in(strong, [this] { proceed(); });
  });
}

/// Has all modules keep their state, which is the state after optimizer step `update`.
void parameter_server_state::keep_state(std::uint64_t update) {
  begin_checkpoint(update);
  for (const auto& [number, module] : modules_)
    if (checkpoint_.keep(number)) module->keep(checkpoint_.allowance());
}

/// Returns whether the collected gradients may be applied: the state that they change has been copied or written.
bool parameter_server_state::make_way() {
  if (checkpoint_.allowance() == nullptr) return true;
  const module_list modules = all_of(modules_);
  return !first_error(modules.size(), side_by_side_ && run_on_any_thread(modules), [&](std::size_t i) {
    return modules[i].module->make_way() ? caf::error() : caf::make_error(caf::sec::runtime_error);
  });
}

/// Continues when there is more memory for copies, or nothing left to keep.
void parameter_server_state::proceed() {
  if (phase_ != update_phase::held_up) return;
  enter(update_phase::collected);
  if (auto error = commit_complete()) return self_->quit(error);
  release_parked();
}

caf::result<msg::saved_module> parameter_server_state::handle(const msg::save_module& order) {
  if (auto error = check_run(order.head)) return error;
  auto promise = self_->make_response_promise<msg::saved_module>();
  const std::uint64_t updates = order.head.step == 0 ? 0 : contexts_.update_of(order.head.step);
  const auto begin = [this, order, updates, promise] { begin_save(order, updates, promise); };
  if (updates <= contexts_.of_all())
    begin();
  else
    parked_.queries.push_back({updates, begin});
  return promise;
}

/// Requires: optimizer step `updates` has been applied.
void parameter_server_state::begin_save(const msg::save_module& order, std::uint64_t updates,
                                        caf::typed_response_promise<msg::saved_module> promise) {
  const auto module = find(order.head, order.module);
  if (!module) return promise.deliver(module.error());
  if (auto error = finish_steps()) {
    self_->quit(error);
    return promise.deliver(std::move(error));
  }
  const bool is_now = contexts_.is_async() || updates == contexts_.committed();
  const bool is_kept = checkpoint_.is_kept(order.module, updates);
  if (order.folder.empty()) {
    if (is_kept) (*module)->forget();
    if (!checkpoint_.update() || *checkpoint_.update() < updates) begin_checkpoint(updates);
    checkpoint_.begin_module(order.module);  // the next optimizer step does not keep it either
    promise.deliver(msg::saved_module{trace.next(step, msg::id_of(order.head)), {}, 0, {}});
    return proceed();
  }
  if (checkpoint_.is_writing(order.module, updates))
    return promise.deliver(refusal(errc::wrong_context,
                                   "module {}: its state after optimizer step {} is still being written for the "
                                   "checkpoint before; save less often",
                                   order.module, updates));
  if (!is_kept && !is_now)
    return promise.deliver(refusal(errc::wrong_context, "the state after optimizer step {} has gone: {} are applied",
                                   updates, contexts_.committed()));
  begin_checkpoint(updates);
  if (!is_kept) (*module)->keep(checkpoint_.allowance());
  checkpoint_.begin_module(order.module);
  checkpoint_.writing_begins(order.module);
  const std::uint64_t begin = trace.is_on() ? trace::ticks_now() : 0;
  // Moved from thread to thread and back: CAF does not count a promise's owners atomically.
  auto done = [this, order, promise = std::move(promise), begin](caf::expected<remote_module::saved> made) mutable {
    checkpoint_.writing_ends(order.module);
    { const actor_trace::range working(trace, trace::range_name::save, order.head.step, begin); }
    if (!made) return promise.deliver(std::move(made.error()));
    const auto& [file, parts] = *made;
    promise.deliver(
        msg::saved_module{trace.next(step, msg::id_of(order.head)), file.name, file.length, file.digest, parts});
  };
  writer_.run(self_->system(), [me = caf::actor_cast<caf::weak_actor_ptr>(self_), done = std::move(done),
                                write = (*module)->begin_save(order.folder)]() mutable {
    auto made = write();
    if (const auto strong = caf::actor_cast<caf::strong_actor_ptr>(me))
      run_in(strong, [done = std::move(done), made = std::move(made)]() mutable { done(std::move(made)); });
  });
  proceed();  // without memory, the module may have been written on this thread
}

}  // namespace troupe::actors
