// The parameter server's modules: creation, description, loading and release.

#include <utility>

#include "actors/common/traced_system.hpp"
#include "actors/server/parameter_server.hpp"
#include "base/exception_text.hpp"
#include "model/checkpoint/inspect.hpp"

namespace troupe::actors {

/// Returns the module that a message names.
caf::expected<remote_module*> parameter_server_state::find(const msg::header& head, std::uint64_t module) const {
  if (auto error = check_run(head)) return error;
  const auto known = modules_.find(module);
  if (known != modules_.end()) return known->second.get();
  return refusal(errc::unknown_module, "there is no module {} here", module);
}

/// Fixes, once, which gradients make up an optimizer step; all modules of a run must agree.
caf::error parameter_server_state::expect(const step_contexts::rules& rules, std::uint64_t steps_done) {
  if (rules.trainers == 0 || rules.accumulate == 0)
    return refusal(errc::bad_input, "a module for {} trainers and {} batches a step", rules.trainers, rules.accumulate);
  const step_contexts::rules& known = contexts_.by();
  if (rules == known) return {};
  if (contexts_.have_begun())
    return refusal(
        errc::bad_input, "a module for {} trainers, {} batches a step, staleness {}; this run has {}, {} and {}",
        rules.trainers, rules.accumulate, rules.staleness, known.trainers, known.accumulate, known.staleness);
  contexts_.begin(rules, steps_done);
  step = steps_done;
  return {};
}

caf::result<msg::module_ref> parameter_server_state::handle(msg::instantiate& order) {
  if (auto error = check_run(order.head)) return error;
  if (auto error = expect({order.trainers, order.accumulate, order.staleness}, order.steps_done)) return error;
  checkpoint_.may_keep(order.checkpoint_memory);
  const auto text = [&] {
    std::string all = order.spec.type;
    for (const auto& [key, value] : order.spec.args) all += fmt::format(" {}={}", key, value);
    return all;
  };
  auto made = with_memory_for(text, [&] { return make(order); });
  if (!made) return refusal(made.error());
  const std::uint64_t module = next_module_++;
  modules_.emplace(module, std::move(*made));
  return msg::module_ref{trace.next(step, msg::id_of(order.head)), self_, module, order.shard, order.shards, rank_};
}

/// The message has no answer: an invalid one ends this server, and with it the run.
caf::result<void> parameter_server_state::handle(const msg::set_optimizer& order) {
  caf::error error = check_origin(order.head, "an optimizer");
  if (!error) {
    const auto module = find(order.head, order.module);
    error = module ? (*module)->set_optimizer(order) : module.error();
    if (error && module) error = refusal(error);
  }
  if (error) self_->quit(error);
  return {};
}

/// Answers with what `make` returns for the module of `query`, once all gradients up to the query's step are applied.
template <class Answer, class Query, class Make>
caf::result<Answer> parameter_server_state::after_step(const Query& query, Make make) {
  if (auto error = check_run(query.head)) return error;
  const auto answer = [this, query, make]() -> caf::expected<Answer> {
    const auto module = find(query.head, query.module);
    if (!module) return module.error();
    if (auto error = finish_steps()) {
      self_->quit(error);
      return error;
    }
    return make(**module);
  };
  const std::uint64_t updates = query.head.step == 0 ? 0 : contexts_.update_of(query.head.step);
  if (updates <= contexts_.of_all()) return answer();
  auto promise = self_->make_response_promise<Answer>();
  parked_.queries.push_back({updates, [promise, answer]() mutable { promise.deliver(answer()); }});
  return promise;
}

caf::result<msg::parameter_list> parameter_server_state::handle(const msg::parameters& query) {
  const auto module = find(query.head, query.module);
  if (!module) return module.error();
  return msg::parameter_list{trace.next(step, msg::id_of(query.head)), (*module)->parameters()};
}

caf::result<msg::module_state> parameter_server_state::handle(const msg::state_dict& query) {
  return after_step<msg::module_state>(query, [this, cause = msg::id_of(query.head)](remote_module& module) {
    return msg::module_state{trace.next(step, cause), module.state_dict(state_parts::all)};
  });
}

caf::result<msg::committed> parameter_server_state::handle(const msg::load_state_dict& order) {
  const auto module = find(order.head, order.module);
  if (!module) return module.error();
  if (auto error = (*module)->load_state_dict(order.entries)) return refusal(error);
  return msg::committed{trace.next(step, msg::id_of(order.head))};
}

caf::result<msg::tensor> parameter_server_state::handle(const msg::row_digests& query) {
  return after_step<msg::tensor>(query, [this, query](const remote_module& module) -> caf::expected<msg::tensor> {
    auto digests = module.row_digests(query.first_row, query.rows);
    if (!digests) return failure_of(name, step, digests.error());
    return digests;
  });
}

caf::result<msg::committed> parameter_server_state::handle(const msg::restore_module& order) {
  const auto module = find(order.head, order.module);
  if (!module) return module.error();
  const auto from = model::inspect_checkpoint(order.directory, order.step, model::inspection_depth::lengths);
  if (!from || !from->found.faults.empty())
    return refusal(errc::bad_input, "the checkpoint of step {} in {} {}", order.step, order.directory,
                   from ? "cannot be read: " + from->found.faults.front() : "has gone");
  const actor_trace::range working(trace, trace::range_name::restore, order.step);
  if (auto error = (*module)->restore(*from->what)) return refusal(error);
  return msg::committed{trace.next(step, msg::id_of(order.head))};
}

caf::result<void> parameter_server_state::handle(const msg::release& order) {
  const auto module = find(order.head, order.module);
  if (!module) return module.error();
  if (auto error = finish_steps()) self_->quit(error);
  checkpoint_.forget(order.module);
  modules_.erase(order.module);
  return {};
}

}  // namespace troupe::actors
