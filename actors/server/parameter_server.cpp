#include "actors/server/parameter_server.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "actors/common/actor_name.hpp"
#include "actors/common/faults.hpp"
#include "actors/common/inline_execution.hpp"
#include "actors/server/bag_cache.hpp"
#include "actors/server/module_list.hpp"
#include "base/exception_text.hpp"

namespace troupe::actors {

void parameter_server_state::start(std::uint64_t run, std::uint32_t rank) {
  run_ = run;
  rank_ = rank;
  name = fmt::format("server {}", rank);
  trace.start(self_, self_->system(), run, server_number(rank), name);
}

caf::error parameter_server_state::check_run(const msg::header& head) const {
  if (head.run == run_) return {};
  return refusal(errc::wrong_context, "a message of run {}, this is run {}", head.run, run_);
}

/// A message must be for the current optimizer step, or for a later one that trainers may be in.
caf::error parameter_server_state::check_context(const msg::header& head) const {
  if (auto error = check_run(head)) return error;
  const std::uint64_t first = contexts_.is_async() ? 1 : step + 1;
  const std::uint64_t last = contexts_.last_open_step();
  if (head.step >= first && head.step <= last) return {};
  return refusal(errc::wrong_context, "a message for step {}, expected {} to {}", head.step, first, last);
}

/// Checks whether the current message comes from the process of the trainer that it names as its sender.
caf::error parameter_server_state::check_origin(const msg::header& head, const char* what) const {
  if (auto error = check_run(head)) return error;
  if (origins_.of_rank.empty()) return {};
  const std::uint32_t first = trainer_number(0, origins_.servers);
  const std::uint32_t trainer = head.sender - first;
  const std::uint32_t rank = trainer / origins_.parts;
  if (head.sender < first || trainer % origins_.parts > 0 || rank >= origins_.of_rank.size())
    return refusal(errc::wrong_context, "{} of actor {}, which is not a trainer with rows", what, head.sender);
  if (origins_.of_rank[rank] == self_->current_sender()) return {};
  return refusal(errc::wrong_context, "{} of trainer {} from a process that does not have that trainer", what, trainer);
}

/// The same, and checks whether that trainer has rank `rank`.
caf::error parameter_server_state::check_speaker(const msg::header& head, std::uint32_t rank, const char* what) const {
  if (auto error = check_origin(head, what)) return error;
  if (origins_.of_rank.empty() || head.sender == trainer_number(rank * origins_.parts, origins_.servers)) return {};
  return refusal(errc::wrong_context, "{} of rank {} from trainer {}", what, rank,
                 head.sender - trainer_number(0, origins_.servers));
}

caf::result<msg::rows> parameter_server_state::handle(msg::lookup& wanted) {
  if (auto error = check_origin(wanted.head, "a lookup")) return error;
  if (auto error = check_context(wanted.head)) return error;
  if (!kernels::is_row_dtype(wanted.type))
    return refusal(errc::bad_input, "a lookup of rows as {}: must be float32, float16 or bfloat16",
                   name_of(wanted.type));
  if (contexts_.missing_before(wanted.head.step) > wanted.staleness) {
    for (const msg::bag_lookup& table : wanted.tables) {
      const auto module = find(wanted.head, table.module);
      if (!module) return module.error();
      if (auto error = (*module)->expect(table)) return refusal(error);
    }
    auto promise = self_->make_response_promise<msg::rows>();
    parked_.lookups.push_back({std::move(wanted), promise});
    return promise;
  }
  return answer(wanted);
}

caf::expected<msg::rows> parameter_server_state::answer(const msg::lookup& wanted) {
  auto found = pool(wanted);
  if (found) found->head = trace.next(wanted.head.step, msg::id_of(wanted.head), trace.latest());
  return found;
}

/// Returns the rows, without a header.
caf::expected<msg::rows> parameter_server_state::pool(const msg::lookup& wanted) {
  const actor_trace::range working(trace, trace::range_name::pool, wanted.head.step, trace.latest());
  work_on(wanted.head.step);
  msg::rows found;
  found.missing = static_cast<std::uint32_t>(contexts_.missing_before(wanted.head.step));
  found.tables.reserve(wanted.tables.size());
  module_list modules;
  std::size_t indices = 0;
  for (const msg::bag_lookup& table : wanted.tables) {
    const auto module = find(wanted.head, table.module);
    if (!module) return module.error();
    modules.push_back({table.module, *module});
    indices += view_of(table).indices.size();
  }
  std::vector<remote_module::lookup_future> begun(modules.size());
  const auto begin = [&](std::size_t i) -> caf::error {
    auto one = with_memory_for([&] { return "rows of " + modules[i].module->description(); },
                               [&] { return modules[i].module->lookup(wanted.tables[i], wanted.type); });
    if (!one) return one.error();
    begun[i] = std::move(*one);
    return {};
  };
  constexpr std::size_t many = std::size_t{1} << 14;
  if (auto error = first_error(modules.size(), indices >= many && run_on_any_thread(modules), begin))
    return refusal(error);
  std::optional<actor_trace::range> waiting;
  if (device_.timer != nullptr &&
      !std::ranges::all_of(wanted.tables, [](const auto& table) { return table.destination != nullptr; }))
    waiting.emplace(trace, trace::range_name::device_wait, wanted.head.step);
  for (const auto& wait_for : begun) found.tables.push_back(wait_for());
  return found;
}

/// A gradient has no answer, so an invalid one ends this server, and with it the run.
caf::result<void> parameter_server_state::handle(msg::gradient& grads) {
  auto error = check_speaker(grads.head, grads.rank, "a gradient");
  if (!error && is_repeated(grads)) return {};
  if (!error) error = accept(grads);
  if (error) {
    self_->quit(error);
    return {};
  }
  const msg::header head = grads.head;
  const auto [rank, ends_step] = std::pair(grads.rank, grads.step);
  contexts_.add(std::move(grads));
  if (!ends_step) return {};
  if (error = complete(head, rank, {}); error) self_->quit(error);
  return {};
}

/// Returns whether `grads` repeats the rank's last gradient, which may already be applied.
bool parameter_server_state::is_repeated(const msg::gradient& grads) const {
  const std::uint64_t last = contexts_.last_sequence(grads.rank);
  return last != 0 && grads.head.sequence == last;
}

caf::error parameter_server_state::check_rank(const msg::header& head, std::uint32_t rank, const char* what) {
  if (auto error = check_context(head)) return error;
  if (rank >= contexts_.by().trainers)
    return refusal(errc::bad_input, "{} of rank {}, there are {} trainers", what, rank, contexts_.by().trainers);
  if (contexts_.of(contexts_.update_of(head.step)).ranks[rank].complete)
    return refusal(errc::wrong_context, "{} of rank {} after its optimizer step", what, rank);
  return {};
}

/// After a rank has requested the norm, it must not add gradients: the modules may already hold them.
caf::error parameter_server_state::check_open(const msg::header& head, std::uint32_t rank, const char* what) {
  if (auto error = check_rank(head, rank, what)) return error;
  if (!contexts_.of(contexts_.update_of(head.step)).ranks[rank].wants_norm) return {};
  return refusal(errc::wrong_context, "{} of rank {} after its question for the norm", what, rank);
}

caf::error parameter_server_state::accept(const msg::gradient& grads) {
  if (auto error = check_open(grads.head, grads.rank, "a gradient")) return error;
  if (const std::uint64_t last = contexts_.last_sequence(grads.rank); grads.head.sequence <= last)
    return refusal(
        errc::wrong_context,
        "a gradient of rank {} is its message {} and comes after its message {}: it was overtaken on its way",
        grads.rank, grads.head.sequence, last);
  for (const msg::bag_gradient& grad : grads.tables) {
    const auto module = find(grads.head, grad.module);
    if (!module) return module.error();
    if (auto error = (*module)->check(grad)) return refusal(error);
  }
  return {};
}

caf::result<msg::squared_norm> parameter_server_state::handle(const msg::gradient_norm& query) {
  constexpr const char* what = "a question for the norm";
  if (auto error = check_speaker(query.head, query.rank, what)) return error;
  if (auto error = check_open(query.head, query.rank, what)) return error;
  if (contexts_.is_async())
    return refusal(errc::wrong_context, "trainers have no step in common: there is no norm of it");
  auto promise = self_->make_response_promise<msg::squared_norm>();
  step_context& open = contexts_.of(contexts_.update_of(query.head.step));
  open.ranks[query.rank].wants_norm = true;
  open.norm_waiting.emplace_back(query.head, promise);
  if (auto error = answer_norms()) self_->quit(error);
  return promise;
}

/// Answers the norm queries of the next optimizer step once all of its gradients have arrived.
caf::error parameter_server_state::answer_norms() {
  step_context& next = contexts_.next();
  if (next.norm_waiting.size() < contexts_.by().trainers) return {};
  if (auto error = finish_steps()) return error;
  work_on(next.norm_waiting.front().first.step);
  if (auto error = collect(next.ranks, contributors_to(next.ranks))) return error;
  enter(update_phase::collected);
  model::exact_sum sum;
  for (const auto& [number, module] : modules_) sum.merge(module->squared_norm());
  const auto limbs = sum.limbs();
  const msg::blob answer = msg::blob::own(std::vector<std::int64_t>(limbs.begin(), limbs.end()));
  for (auto& [head, promise] : std::exchange(next.norm_waiting, {}))
    promise.deliver(msg::squared_norm{trace.next(head.step, msg::id_of(head)), answer});
  return {};
}

caf::result<msg::committed> parameter_server_state::handle(const msg::optimizer_step& order) {
  if (auto error = check_speaker(order.head, order.rank, "an optimizer step")) return error;
  if (auto error = check_rank(order.head, order.rank, "a second optimizer step")) return error;
  auto promise = self_->make_response_promise<msg::committed>();
  contexts_.of(contexts_.update_of(order.head.step)).waiting.emplace_back(order.head, promise);
  if (auto error = complete(order.head, order.rank, {order.apply, order.factor})) self_->quit(error);
  return promise;
}

/// All of a trainer's gradients of an optimizer step have arrived.
caf::error parameter_server_state::complete(const msg::header& head, std::uint32_t rank, step_order order) {
  const std::uint64_t update = contexts_.update_of(head.step);
  step_context& open = contexts_.of(update);
  if (open.complete > 0 && !(open.order == order))
    return refusal(errc::wrong_context, "rank {} orders another optimizer step {} than those before it", rank, update);
  open.order = order;
  open.last_step = std::max(open.last_step, head.step);
  if (contexts_.is_async()) {
    if (auto error = apply_rank(update, rank)) return error;
  } else {
    open.ranks[rank].complete = true;
    ++open.complete;
    if (auto error = commit_complete()) return error;
  }
  release_parked();
  return {};
}

void parameter_server_state::release_parked() {
  // No std::ranges::partition: clang 14, which builds the fuzz targets, cannot read libstdc++'s subrange.
  const auto ready_lookups = std::partition(
      parked_.lookups.begin(), parked_.lookups.end(),
      [this](const parked_lookup& p) { return contexts_.missing_before(p.wanted.head.step) > p.wanted.staleness; });
  for (auto p = ready_lookups; p != parked_.lookups.end(); ++p) p->promise.deliver(answer(p->wanted));
  parked_.lookups.erase(ready_lookups, parked_.lookups.end());
  release_parked_calls();

  if (parked_.queries.empty()) return;
  const auto ready_queries =
      std::stable_partition(parked_.queries.begin(), parked_.queries.end(),
                            [this](const parked_query& q) { return q.updates > contexts_.of_all(); });
  // An answer may release more.
  const std::vector<parked_query> ready(std::make_move_iterator(ready_queries),
                                        std::make_move_iterator(parked_.queries.end()));
  parked_.queries.erase(ready_queries, parked_.queries.end());
  for (const parked_query& q : ready) q.answer();
}

void send_origins(const msg::parameter_server_actor& server, trainer_origins origins) {
  auto* const self = caf::actor_cast<parameter_server_state::pointer>(server);
  run_in(caf::actor_cast<caf::strong_actor_ptr>(server),
         [self, origins = std::move(origins)] { self->state.trainers_come_from(origins); });
}

msg::parameter_server_actor::behavior_type parameter_server(parameter_server_state::pointer self, std::uint64_t run,
                                                            std::uint32_t rank) {
  self->state.start(run, rank);
  fail_on_exceptions(self);
  drop_unexpected(self);
  return {
      recorded<msg::instantiate>(self),    recorded<msg::lookup>(self),
      recorded<msg::gradient>(self),       recorded<msg::gradient_norm>(self),
      recorded<msg::optimizer_step>(self), recorded<msg::parameters>(self),
      recorded<msg::state_dict>(self),     recorded<msg::load_state_dict>(self),
      recorded<msg::row_digests>(self),    recorded<msg::save_module>(self),
      recorded<msg::restore_module>(self), recorded<msg::release>(self),
      recorded<msg::set_optimizer>(self),  recorded<msg::call>(self),
      recorded<msg::actor_query>(self),
  };
}

}  // namespace troupe::actors
