#include "troupe/runtime/trainer_runtime.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "actors/actor_name.hpp"
#include "actors/failure.hpp"
#include "actors/inline_execution.hpp"
#include "actors/own_device.hpp"
#include "actors/traced_system.hpp"
#include "base/assert.hpp"
#include "base/digest.hpp"
#include "base/number.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/deadline.hpp"
#include "troupe/runtime/errors.hpp"
#include "troupe/runtime/remote_pass.hpp"

namespace troupe::runtime {

// -- the actor ----------------------------------------------------------------------

void trainer_runtime::start(std::uint64_t run, std::uint32_t rank, std::uint32_t servers, trainer_function function) {
  name = fmt::format("trainer {}", rank);
  rank_ = rank;
  function_ = std::move(function);
  actors::leave_to_workers(self_);
  executor_ = std::make_shared<actor_executor>(calls_, caf::strong_actor_ptr(self_->ctrl()));
  executor_->use_own_stack(true);  // until the first step, by which most programs have made their replicas
  woken_ = actors::own_execution(self_, actors::devices_of(self_->system()));
  const std::uint32_t number = actors::trainer_number(rank, servers);
  calls_.start(self_, trace, number, executor_);
  communicator_.stops_when([this] { return stops_alone(); });
  trace.start(self_, self_->system(), run, number, name);
}

trainer_runtime& trainer_runtime::current() {
  auto* const here = actor_executor::here();
  auto* const trainer = here == nullptr ? nullptr : here->owner().trainer();
  if (trainer == nullptr) throw error(error_kind::input, "only a trainer function can do this: no trainer runs here");
  return *trainer;
}

caf::result<msg::trained> trainer_runtime::handle(msg::train& order) {
  promise_ = self_->make_response_promise<msg::trained>();
  trainers_ = order.trainers;
  std::vector<std::uint64_t> planned;
  for (const auto& shards : order.tables) planned.push_back(shards.empty() ? 0 : shards.front().module);
  std::vector<msg::parameter_server_actor> servers;
  for (const msg::server_place& one : order.servers) servers.push_back(one.server);
  calls_.reaches(servers, planned);
  outside_.start(self_->system(), order.head.run, calls_.number(), servers, planned, executor_);
  peers_ = {.tables = std::move(order.tables),
            .group = order.group,
            .group_number = order.group_number,
            .reports = order.reports,
            .remote = order.remote};
  if (order.request_timeout_ms > 0) peers_.timeout = std::chrono::milliseconds(order.request_timeout_ms);
  saves_ = order.saves;
  checkpoint_every_ = order.checkpoint_every;
  saves_by_time_ = saves_ && (order.checkpoint_seconds > 0 || order.checkpoint_mtbf > 0);
  if (rank_ == 0 && saves_by_time_) timer_.emplace(order.checkpoint_seconds, order.checkpoint_mtbf);
  if (timer_) timer_->start(actors::checkpoint_timer::now(), order.from.steps_done);
  step = steps_done_ = saved_step_ = order.from.steps_done;
  kept_.start(order);
  begin_ = clock::now();
  for (const auto& [setting, text] : order.job)
    if (setting == "seed") seed_ = parse_number<std::uint64_t>(text).value_or(1);
  executor_->enter([&] {
    try {
      resume();
    } catch (const error&) {
      return ended(std::current_exception());
    }
    executor_->post_function([this] { run_function(); });
  });
  return promise_;
}

void trainer_runtime::run_function() {
  try {
    task_ = running_task(function_(trainer(*this)), [this](const std::exception_ptr& thrown) { ended(thrown); });
  } catch (...) {  // by a function that is no coroutine
    ended(std::current_exception());
  }
}

/// Other trainers end too, so what this one waits for may never come.
void trainer_runtime::handle(const msg::stop& /*wish*/) {
  stop_wanted_ = true;
  if (stops_alone()) executor_->enter([&] { communicator_.stop_waiting(); });
}

/// The trainer function has returned, or thrown. What it has printed is written before others hear of that: a process
/// of a role that does not end soon after the run is killed.
void trainer_runtime::ended(const std::exception_ptr& thrown) {
  std::cout.flush();
  std::fflush(stdout);
  caf::error cause;
  try {
    if (thrown) std::rethrow_exception(thrown);
    check_all_awaited();
    return calls_.when_answered([this] { returned(); });
  } catch (const fiber::unwinding&) {
    return;  // with this actor
  } catch (const run_stopped&) {
    stops_now_ = true;
    return with_all_stages([this] { deliver(); });
  } catch (const error& e) {
    if (stop_wanted_ && !ended_peers_.empty()) {  // it waited for one that has stopped
      stops_now_ = true;
      return deliver();
    }
    using actors::errc;
    const errc lost = e.kind() == error_kind::deadline ? errc::timeout : errc::peer_failed;
    const errc other = e.is_transient() ? lost : errc::exception;
    cause = actors::make_failure(e.kind() == error_kind::input ? errc::bad_input : other, e.what());
    cause = actors::cause_behind(cause, actors::devices_of(self_->system()).of_trainer(rank_));
  } catch (...) {
    cause = actors::cause_of(std::current_exception());
  }
  self_->quit(actors::failure_of(name, step_under_way(), cause));
}

/// The trainer function has returned, and servers have answered.
void trainer_runtime::returned() {
  try {
    with_drained_stages([this] { communicator_.end(steps_done_, [this] { with_all_stages([this] { finish(); }); }); },
                        [this](const std::exception_ptr& why) { ended(why); });
  } catch (const error&) {
    ended(std::current_exception());
  }
}

void trainer_caller::callback_threw(const std::exception_ptr& thrown) { trainer_.callback_threw(thrown); }

void trainer_runtime::callback_threw(const std::exception_ptr& thrown) {
  const auto why = error_in_callback(thrown);
  const bool waited_for_stopped = stop_wanted_ && !ended_peers_.empty();
  if (!why || waited_for_stopped || std::exchange(is_over_, true)) return;
  using actors::errc;
  const errc code = why->is_transient() ? errc::peer_failed : errc::exception;
  self_->quit(actors::failure_of(name, step_under_way(), actors::make_failure(code, why->what())));
}

/// Answers the order to train.
void trainer_runtime::deliver() {
  // A callback may have failed it.
  if (std::exchange(is_over_, true)) return;
  std::vector<float> all;  // of rank 0: parameters, then buffers
  std::vector<float> buffers;
  running_digest digest;  // of the digests of the networks
  const auto add = [&](std::uint64_t of_parameters, std::span<const float> parameters, std::span<const float> kept) {
    digest.add(std::as_bytes(std::span(&of_parameters, 1)));
    if (rank_ != 0) return;
    all.insert(all.end(), parameters.begin(), parameters.end());
    buffers.insert(buffers.end(), kept.begin(), kept.end());
  };
  for (const auto& one : replicas_) {
    if (!one->is_synchronized()) continue;  // other trainers have other numbers
    if (one->stage() != nullptr) {
      const pipeline_stage::whole& network = one->stage()->collected();
      add(network.digest, network.parameters, network.buffers);
      continue;
    }
    const msg::tensor parameters = one->numbers().weights();
    add(digest_of(parameters.bytes.data(), parameters.bytes.size()), parameters.as<float>(),
        one->numbers().buffers().as<float>());
  }
  trace.rests();
  msg::trained result{trace.next(steps_done_), steps_done_, stops_now_, {}, digest.value()};
  result.server_steps = server_steps();
  all.insert(all.end(), buffers.begin(), buffers.end());
  const std::uint64_t count = all.size();
  if (rank_ == 0) result.dense = msg::tensor::own(count, 1, std::move(all));
  promise_.deliver(std::move(result));
}

caf::result<msg::actor_status> trainer_runtime::handle(const msg::actor_query& query) {
  msg::actor_status now{trace.next(step, msg::id_of(query.head)), name, "training", step, {}, {}};
  communicator_.tell_waits(name, now.waits);
  return now;
}

/// If this trainer takes more steps, the run ends: they would wait for each other for ever.
void trainer_runtime::handle(const msg::trainer_ended& word) {
  if (word.rank != rank_) note_end(word.rank, word.steps);
}

void trainer_runtime::handle(const msg::peer_ended& word) {
  executor_->enter([&] {
    communicator_.take(word);
    ended_peers_[word.rank] = word.steps;  // before the function hears of it
  });
  note_end(word.rank, word.steps);
}

void trainer_runtime::note_end(std::uint32_t rank, std::uint64_t steps) {
  ended_peers_[rank] = steps;
  try {
    check_peers();
  } catch (const error& e) {
    // This trainer may have gone on: steps of tables alone do not wait for each other.
    self_->quit(actors::failure_of(name, steps + 1, actors::make_failure(actors::errc::bad_input, e.what())));
  }
}

/// Throws if another trainer has ended with fewer steps.
void trainer_runtime::check_peers() const {
  if (!is_synchronous() || stop_wanted_) return;
  for (const auto& [rank, steps] : ended_peers_)
    if (steps < steps_done_)
      throw error(error_kind::input,
                  fmt::format("trainer {} has returned after step {}; all trainers take as many steps, and one without "
                              "data takes them with an empty context",
                              rank, steps));
}

// -- what the function uses -----------------------------------------------------------

std::uint64_t trainer_runtime::begin_context() {
  if (step == steps_done_) trace.step_begins(++step);
  return ++contexts_;
}

std::vector<msg::module_ref> trainer_runtime::shards_of(const reference& module) const {
  if (module.planned()) return peers_.tables.at(*module.planned());
  msg::module_ref one;
  one.server = calls_.servers().at(module.server());
  one.module = module.module();
  one.rank = module.server();
  return {one};
}

future<tensor> trainer_runtime::look_up(tape& on, const std::shared_ptr<const remote_table>& table,
                                        std::span<const std::int64_t> indices, std::span<const std::int64_t> offsets,
                                        std::optional<std::chrono::milliseconds> deadline) {
  auto samples = std::make_shared<model::batch>();
  samples->size = offsets.size();
  samples->tables.push_back({{indices.begin(), indices.end()}, {offsets.begin(), offsets.end()}, {}});
  table->check_lookup("forward", samples->tables.front());
  auto [known, is_new] = clients_.try_emplace(table);
  if (is_new)
    known->second = actors::sparse_client(table->spec(), {shards_of(*table->reference())}, {.remote = peers_.remote});
  actors::sparse_client& client = known->second;
  auto asked = std::make_shared<lookup>(table, client, client.prepare(1, samples));

  auto answer = std::make_shared<promise<tensor>>();
  auto coming = answer->get_future();
  const caf::timespan timeout = deadline ? std::min<caf::timespan>(bounded(*deadline), peers_.timeout) : peers_.timeout;
  tensor unknown = on.add({}, asked);
  actors::sparse_client::context& c = asked->asked();
  for (std::size_t s = 0; s < client.servers(); ++s) {
    if (c.lookups[s].empty()) continue;
    const std::uint64_t at_step = server_steps_[client.rank(s)] + 1;
    ask<msg::rows>(
        client.server(s), actors::server_number(client.rank(s)), client.ask(c, s, trace.next(at_step), 0), timeout,
        [asked, answer, unknown, s, dim = table->dim()](msg::rows& rows) {
          actors::sparse_client::context& all = asked->asked();
          actors::sparse_client::take(all, s, std::move(rows));
          if (all.unanswered > 0) return;
          kernels::stream& host = kernels::host_stream();
          actors::network_input pooled;
          pooled.resize(host, all.samples->size, dim);
          if (const caf::error wrong = asked->client().pool(all, host, pooled)) return answer->fail(to_error(wrong));
          tensor found({all.samples->size, dim}, dtype::f32, pooled.owner());
          answer->set(tape::with_numbers(unknown, *asked, std::move(found)));
        },
        [answer, table, timeout, own_deadline = timeout < peers_.timeout](const caf::error& why) {
          const bool is_own = own_deadline && why == actors::errc::timeout;
          answer->fail(is_own ? not_in_time(table->reference()->words("forward"), timeout) : to_error(why));
        });
  }
  on.finish_passed();  // while the servers work
  return coming;
}

caf::error trainer_runtime::late(std::uint32_t number, std::string_view question, caf::timespan timeout) {
  return actors::make_failure(
      actors::errc::timeout, "{} did not answer {} within {} s; --request-timeout allows more",
      number == actors::master_number ? "the master" : fmt::format("server {}", number - actors::server_number(0)),
      question, std::chrono::duration<double>(timeout).count());
}

namespace {

/// Returns the reference to a member. Requires: it is on a server.
const reference& reference_of(const trained& one) {
  if (const auto* table = std::get_if<std::shared_ptr<const remote_table>>(&one)) return *(*table)->reference();
  return *std::get<reference_ptr>(one);
}

}  // namespace

void trainer_runtime::set_optimizer(const model::optimizer_spec& chosen, const std::string& text,
                                    const std::vector<trained>& members) {
  for (const trained& one : members) {
    if (const auto* local = std::get_if<std::shared_ptr<replica>>(&one)) {
      (*local)->set_optimizer(chosen);
      continue;
    }
    for (const msg::module_ref& shard : shards_of(reference_of(one)))
      self_->send(shard.server, msg::set_optimizer{trace.next(step), shard.module, text, chosen.lr});
  }
}

/// Sends every server of remote members its gradients of the context, which order its optimizer step.
void trainer_runtime::send_gradients(const tape& with, const std::vector<trained>& members) {
  std::map<std::uint32_t, std::pair<msg::parameter_server_actor, msg::gradient>> messages;  // by server
  for (const trained& one : members) {
    const auto* table = std::get_if<std::shared_ptr<const remote_table>>(&one);
    if (std::holds_alternative<std::shared_ptr<replica>>(one)) continue;
    for (const msg::module_ref& shard : shards_of(reference_of(one))) messages[shard.rank].first = shard.server;
    if (table == nullptr) continue;
    for (const auto& made : with.nodes()) {
      const auto* looked_up = dynamic_cast<const lookup*>(made.get());
      if (looked_up == nullptr || &looked_up->table() != table->get()) continue;
      auto gradients = looked_up->gradients();
      for (std::size_t s = 0; s < gradients.size(); ++s) {
        auto& tables = messages[looked_up->client().rank(s)].second.tables;
        std::ranges::move(gradients[s], std::back_inserter(tables));
      }
    }
  }
  for (auto& [rank, message] : messages) {
    msg::gradient& grads = message.second;
    grads.head = trace.next(++server_steps_[rank]);
    grads.rank = rank_;
    grads.has_batch = with.has_gone_back();
    self_->send(message.first, std::move(grads));
  }
}

std::chrono::milliseconds trainer_runtime::deadline() const {
  if (peers_.timeout == caf::infinite) return default_deadline;
  return std::chrono::duration_cast<std::chrono::milliseconds>(peers_.timeout);
}

namespace {

msg::library_trainer_actor::behavior_type run_trainer(trainer_runtime::pointer self, std::uint64_t run,
                                                      std::uint32_t rank, std::uint32_t servers,
                                                      trainer_function function) {
  self->state.start(run, rank, servers, std::move(function));
  actors::fail_on_exceptions(self);
  return {
      actors::recorded<msg::train>(self),
      actors::recorded<msg::stop>(self),
      actors::recorded<msg::trainer_ended>(self),
      actors::recorded<msg::actor_query>(self),
      actors::recorded<msg::collective_share>(self),
      actors::recorded<msg::collective_sum>(self),
      actors::recorded<msg::peer_tensor>(self),
      actors::recorded<msg::peer_ended>(self),
  };
}

}  // namespace

actors::made_trainer make_trainer(caf::actor_system& system, std::uint64_t run, std::uint32_t rank,
                                  std::uint32_t servers, trainer_function function) {
  const auto made = actors::spawn_computing(system, actors::devices_of(system).trainers, run_trainer, run, rank,
                                            servers, std::move(function));
  const auto whom = caf::actor_cast<caf::strong_actor_ptr>(made);
  return {made, [whom, rank](actors::trainer_peers peers) {
            auto* const self = caf::actor_cast<trainer_runtime::pointer>(whom);
            actors::run_in(whom,
                           [self, rank, peers = std::move(peers)] { self->state.communicator().meet(rank, peers); });
          }};
}

}  // namespace troupe::runtime
