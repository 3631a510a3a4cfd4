// An optimizer step on the parameter server: its gradients are collected, and applied once.

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "actors/common/faults.hpp"
#include "actors/server/module_list.hpp"
#include "actors/server/parameter_server.hpp"
#include "base/exception_text.hpp"

namespace troupe::actors {

contributors parameter_server_state::contributors_to(std::span<const contribution> ranks) {
  contributors from;
  for (const contribution& rank : ranks) {
    const auto batches = std::ranges::count_if(rank.parts, &msg::gradient::has_batch);
    from.batches += static_cast<std::uint64_t>(batches);
    from.trainers += batches > 0 ? 1 : 0;
  }
  return from;
}

/// Returns whether these gradients are large enough to use idle threads.
bool parameter_server_state::is_much(std::span<const contribution> ranks) const {
  constexpr std::size_t many_bytes = std::size_t{1} << 20;
  std::size_t bytes = 0;
  for (const contribution& rank : ranks)
    for (const msg::gradient& part : rank.parts)
      for (const msg::bag_gradient& grad : part.tables) bytes += grad.grad.bytes.size();
  return bytes >= many_bytes;
}

/// Passes every module the gradients of `ranks`, in rank order.
caf::error parameter_server_state::collect(std::span<const contribution> ranks, contributors from) {
  const module_list modules = all_of(modules_);
  const auto pass = [&](std::size_t i) {
    boost::container::small_vector<const msg::bag_gradient*, few_modules> ordered;
    for (const contribution& rank : ranks)
      for (const msg::gradient& part : rank.parts)
        for (const msg::bag_gradient& grad : part.tables)
          if (grad.module == modules[i].number) ordered.push_back(&grad);
    return with_memory_for([&] { return "the gradient of " + modules[i].module->description(); },
                           [&] { return modules[i].module->collect(ordered, from); });
  };
  side_by_side_ = is_much(ranks) && run_on_any_thread(modules);
  const auto error = first_error(modules.size(), side_by_side_, pass);
  return error ? refusal(error) : caf::error();
}

caf::error parameter_server_state::apply(std::uint64_t update, step_order order) {
  const module_list modules = all_of(modules_);
  if (!order.apply) {
    for (const hosted& one : modules) one.module->leave_out();
    return {};
  }
  // Modules may have been made since the gradients were collected.
  caf::error fault = first_error(modules.size(), side_by_side_ && run_on_any_thread(modules), [&](std::size_t i) {
    with_memory_for([&] { return "a step of " + modules[i].module->description(); },
                    [&] { modules[i].module->apply(update, order.factor); });
    return caf::error();
  });
  bool is_under_way = false;
  for (const hosted& one : modules) {
    if (one.module->finishes_later()) {
      one.module->launch();
      is_under_way = true;
    } else if (auto error = one.module->finish(); error && !fault) {
      fault = refusal(error);
    }
  }
  if (is_under_way) device_.unfinished.push_back({contexts_.of(update).last_step, {}});
  return fault;
}

/// Waits for the optimizer steps on devices, except for the last `but_last` ones. They have been running since they
/// were applied: the host does not wait within a step.
caf::error parameter_server_state::finish_steps(std::size_t but_last) {
  if (device_.unfinished.size() <= but_last) return {};
  std::optional<actor_trace::range> waiting;
  if (device_.timer != nullptr) waiting.emplace(trace, trace::range_name::device_wait, step);
  caf::error fault;
  for (; device_.unfinished.size() > but_last; device_.unfinished.pop_front())
    for (const auto& [number, module] : modules_)
      if (module->finishes_later())
        if (auto error = module->finish(); error && !fault)
          fault = failure_of(name, device_.unfinished.front().last_step, error);
  return fault;
}

/// Releases a rank's gradients, unless devices still read them.
void parameter_server_state::drop_gradients(contribution& rank) {
  if (!device_.unfinished.empty()) std::ranges::move(rank.parts, std::back_inserter(device_.unfinished.back().in_use));
  rank.parts.clear();
}

void parameter_server_state::deliver_committed(step_context& done) {
  for (auto& [head, promise] : std::exchange(done.waiting, {}))
    promise.deliver(msg::committed{trace.next(step, msg::id_of(head))});
}

/// Applies the complete optimizer steps. The next one may have been complete before the last one: a trainer without
/// data does not wait for lookups.
caf::error parameter_server_state::commit_complete() {
  while (phase_ != update_phase::held_up && contexts_.is_next_complete())
    if (auto error = commit()) return error;
  return {};
}

/// Applies the next optimizer step, unless it is held up. Requires: all of its gradients have arrived.
caf::error parameter_server_state::commit() {
  const std::uint64_t update = contexts_.committed() + 1;
  step_context& ready = contexts_.next();
  const std::uint64_t begin = trace.latest();
  // If steps are captured as graphs, the last step's graph has been launched, and the one before it is over.
  const std::size_t under_way = device_.graphs != nullptr && device_.graphs->are_captured() ? 1 : 0;
  if (auto error = finish_steps(under_way)) return error;
  work_on(ready.last_step);
  if (ready.keeps) keep_state(update - 1);
  if (phase_ == update_phase::gathering) {
    if (auto error = collect(ready.ranks, contributors_to(ready.ranks))) return error;
    enter(update_phase::collected);
  }
  if (ready.order.apply && !make_way()) {
    enter(update_phase::held_up);
    return {};
  }
  enter(update_phase::gathering);
  const actor_trace::range working(trace, trace::range_name::apply, ready.last_step, begin);
  if (auto* wrong = faults()) wrong->applying(rank_, ready.last_step);
  if (auto error = apply(update, ready.order)) return error;
  step = ready.last_step;
  for (contribution& rank : ready.ranks) drop_gradients(rank);
  contexts_.commit();
  deliver_committed(ready);
  return answer_norms();
}

/// Consistency async: applies one trainer's gradients alone, weighted as if all trainers had as many batches.
caf::error parameter_server_state::apply_rank(std::uint64_t update, std::uint32_t rank) {
  step_context& open = contexts_.of(update);
  const actor_trace::range working(trace, trace::range_name::apply, open.last_step, trace.latest());
  if (auto error = finish_steps()) return error;
  work_on(open.last_step);
  if (auto* wrong = faults()) wrong->applying(rank_, open.last_step);
  const std::span mine(&open.ranks[rank], 1);
  const std::uint64_t batches = contributors_to(mine).batches;
  if (auto error = collect(mine, {contexts_.by().trainers, batches * contexts_.by().trainers})) return error;
  if (auto error = apply(update, open.order)) return error;
  drop_gradients(open.ranks[rank]);
  contexts_.commit(update, rank);
  step = std::max(step, open.last_step);
  deliver_committed(open);
  return {};
}

}  // namespace troupe::actors
