#include "actors/parameter_server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actors/actor_name.hpp"
#include "protocol/errors.hpp"
#include "protocol/inspect.hpp"

namespace troupe {

void parameter_server_state::start(std::uint64_t run, std::uint32_t rank) {
  run_ = run;
  name = fmt::format("server {}", rank);
  headers_ = header_source(run, server_number(rank));
}

caf::error parameter_server_state::refusal(const caf::error& cause) const { return failure_of(name, step + 1, cause); }

remote_module* parameter_server_state::find(std::uint64_t module) {
  auto it = modules_.find(module);
  return it == modules_.end() ? nullptr : it->second.get();
}

caf::error parameter_server_state::unknown(std::uint64_t module) const {
  return refusal(make_failure(errc::unknown_module, fmt::format("there is no module {} here", module)));
}

/// Messages may be for the step under way or the next one: trainers are at most one step apart.
caf::error parameter_server_state::check_context(const header& head) const {
  if (head.run != run_)
    return refusal(
        make_failure(errc::wrong_context, fmt::format("a message of run {}, this is run {}", head.run, run_)));
  if (head.step <= step || head.step > step + contexts_.size())
    return refusal(make_failure(errc::wrong_context, fmt::format("a message for step {}, expected {} or {}", head.step,
                                                                 step + 1, step + contexts_.size())));
  return {};
}

caf::result<module_ref> parameter_server_state::handle(instantiate& order) {
  if (order.trainers == 0 || (trainers_ != 0 && order.trainers != trainers_))
    return refusal(make_failure(errc::bad_input,
                                fmt::format("a module for {} trainers, this run has {}", order.trainers, trainers_)));
  auto made = make_remote_module(order);
  if (!made) return refusal(made.error());
  if (trainers_ == 0) {
    trainers_ = order.trainers;
    last_sequence_.resize(trainers_);
    for (context& c : contexts_) c.ranks.resize(trainers_);
  }
  const std::uint64_t module = next_module_++;
  modules_.emplace(module, std::move(*made));
  return module_ref{headers_.next(step, id_of(order.head)), self_, module, order.shard, order.shards};
}

caf::result<rows> parameter_server_state::handle(lookup& wanted) {
  if (auto error = check_context(wanted.head)) return error;
  if (wanted.head.step > step + 1) {
    auto promise = self_->make_response_promise<rows>();
    parked_.push_back({std::move(wanted), promise});
    return promise;
  }
  auto found = answer(wanted);
  if (!found) return found.error();
  return std::move(*found);
}

caf::expected<rows> parameter_server_state::answer(const lookup& wanted) {
  rows found;
  found.head = headers_.next(wanted.head.step, id_of(wanted.head));
  found.tables.reserve(wanted.tables.size());
  for (const bag_lookup& table : wanted.tables) {
    remote_module* module = find(table.module);
    if (module == nullptr) return unknown(table.module);
    auto pooled = module->lookup(table);
    if (!pooled) return refusal(pooled.error());
    found.tables.push_back(std::move(*pooled));
  }
  return found;
}

/// A gradient has no answer, so what is wrong with it ends this server, and by that the run.
caf::result<void> parameter_server_state::handle(gradient& grads) {
  if (grads.rank < last_sequence_.size() && grads.head.sequence <= last_sequence_[grads.rank]) return {};
  if (auto error = accept(grads)) {
    self_->quit(error);
    return {};
  }
  last_sequence_[grads.rank] = grads.head.sequence;
  const header head = grads.head;
  const auto [rank, has_batch, ends_step] = std::tuple(grads.rank, grads.has_batch, grads.step);
  context_of(head.step).ranks[rank].parts.push_back(std::move(grads));
  if (!ends_step) return {};
  if (auto error = complete(head, rank, has_batch)) self_->quit(error);
  return {};
}

caf::error parameter_server_state::accept(const gradient& grads) {
  if (auto error = check_context(grads.head)) return error;
  if (grads.rank >= trainers_)
    return refusal(make_failure(errc::bad_input,
                                fmt::format("a gradient of rank {}, there are {} trainers", grads.rank, trainers_)));
  if (context_of(grads.head.step).ranks[grads.rank].complete)
    return refusal(
        make_failure(errc::wrong_context, fmt::format("a gradient of rank {} after its optimizer step", grads.rank)));
  for (const bag_gradient& grad : grads.tables) {
    remote_module* module = find(grad.module);
    if (module == nullptr) return unknown(grad.module);
    if (auto error = module->check(grad)) return refusal(error);
  }
  return {};
}

caf::result<committed> parameter_server_state::handle(const optimizer_step& order) {
  if (auto error = check_context(order.head)) return error;
  if (order.rank >= trainers_ || context_of(order.head.step).ranks[order.rank].complete)
    return refusal(make_failure(errc::wrong_context, fmt::format("a second optimizer step of rank {}", order.rank)));
  auto promise = self_->make_response_promise<committed>();
  context_of(order.head.step).waiting.emplace_back(order.head, promise);
  if (auto error = complete(order.head, order.rank, order.has_batch)) self_->quit(error);
  return promise;
}

caf::error parameter_server_state::complete(const header& head, std::uint32_t rank, bool has_batch) {
  context& open = context_of(head.step);
  open.ranks[rank].complete = true;
  open.ranks[rank].has_batch = has_batch;
  ++open.complete;
  // The next step's gradients may have become complete first: a trainer without data does not wait for lookups.
  while (context_of(step + 1).complete == trainers_)
    if (auto error = commit(context_of(step + 1))) return error;
  release_parked();
  return {};
}

/// Applies the step to every module: for each, the gradients of all ranks in rank order.
caf::error parameter_server_state::commit(context& ready) {
  const auto contributors = static_cast<std::uint32_t>(
      std::count_if(ready.ranks.begin(), ready.ranks.end(), [](const contribution& c) { return c.has_batch; }));
  for (auto& [number, module] : modules_) {
    ordered_.clear();
    for (const contribution& rank : ready.ranks)
      for (const gradient& part : rank.parts)
        for (const bag_gradient& grad : part.tables)
          if (grad.module == number) ordered_.push_back(&grad);
    if (auto error = module->step(step + 1, ordered_, contributors)) return refusal(error);
  }
  ++step;
  for (contribution& rank : ready.ranks) {
    rank.parts.clear();
    rank.complete = false;
  }
  ready.complete = 0;
  for (auto& [head, promise] : std::exchange(ready.waiting, {}))
    promise.deliver(committed{headers_.next(step, id_of(head))});
  return {};
}

void parameter_server_state::release_parked() {
  auto waiting = std::partition(parked_.begin(), parked_.end(),
                                [this](const parked_lookup& p) { return p.wanted.head.step > step + 1; });
  for (auto it = waiting; it != parked_.end(); ++it) {
    if (auto found = answer(it->wanted))
      it->promise.deliver(std::move(*found));
    else
      it->promise.deliver(found.error());
  }
  parked_.erase(waiting, parked_.end());
}

caf::result<parameter_list> parameter_server_state::handle(const parameters& query) {
  remote_module* module = find(query.module);
  if (module == nullptr) return unknown(query.module);
  return parameter_list{headers_.next(step, id_of(query.head)), module->parameters()};
}

caf::result<module_state> parameter_server_state::handle(const state_dict& query) {
  remote_module* module = find(query.module);
  if (module == nullptr) return unknown(query.module);
  return module_state{headers_.next(step, id_of(query.head)), module->state_dict()};
}

caf::result<committed> parameter_server_state::handle(const load_state_dict& order) {
  remote_module* module = find(order.module);
  if (module == nullptr) return unknown(order.module);
  if (auto error = module->load_state_dict(order.entries)) return refusal(error);
  return committed{headers_.next(step, id_of(order.head))};
}

caf::result<tensor> parameter_server_state::handle(const row_digests& query) {
  remote_module* module = find(query.module);
  if (module == nullptr) return unknown(query.module);
  auto digests = module->row_digests();
  if (!digests) return failure_of(name, step, digests.error());
  return std::move(*digests);
}

caf::result<void> parameter_server_state::handle(const release& order) {
  if (modules_.erase(order.module) == 0) return unknown(order.module);
  return {};
}

parameter_server_actor::behavior_type parameter_server(parameter_server_state::pointer self, std::uint64_t run,
                                                       std::uint32_t rank) {
  self->state.start(run, rank);
  fail_on_exceptions(self);
  return {
      [self](instantiate& order) { return self->state.handle(order); },
      [self](lookup& wanted) { return self->state.handle(wanted); },
      [self](gradient& grads) { return self->state.handle(grads); },
      [self](const optimizer_step& order) { return self->state.handle(order); },
      [self](const parameters& query) { return self->state.handle(query); },
      [self](const state_dict& query) { return self->state.handle(query); },
      [self](const load_state_dict& order) { return self->state.handle(order); },
      [self](const row_digests& query) { return self->state.handle(query); },
      [self](const release& order) { return self->state.handle(order); },
  };
}

}  // namespace troupe
