#include "troupe/runtime/trainer_runtime.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <iostream>

#include "actors/common/actor_name.hpp"
#include "actors/common/failure.hpp"
#include "actors/common/own_device.hpp"
#include "actors/trainer/trainer.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/errors.hpp"
#include "troupe/runtime/place.hpp"

namespace troupe::runtime {

// -- its function -------------------------------------------------------------------

trainer_runtime::trainer_runtime(actors::trainer_context actor, trainer_function function, const step_rules& rules)
    : trainer_body(std::move(actor)),
      trace(actor_.trace),
      step(actor_.step),
      requests_(actor_, std::make_shared<actor_executor>(calls_, caf::strong_actor_ptr(actor_.self->ctrl()))),
      assigned_(rules),
      function_(std::move(function)) {
  actors::leave_to_workers(actor_.self);
  executor().use_own_stack(true);  // until the first step: most programs make their replicas before it
  calls_.start(actor_.self, trace, actors::trainer_number(rank(), actor_.servers), requests_.executor());
  communicator_.stops_when([this] { return stops_alone(); });
}

/// Ends the actor, and with it the run. Only the first failure counts.
void trainer_runtime::fail(std::uint64_t at_step, const caf::error& cause) {
  if (phase_ == phase::over) return;
  enter(phase::over);
  actor_.fail(actors::failure_of(actor_.name, at_step, cause));
}

trainer_runtime& trainer_runtime::current() {
  auto* const here = actor_executor::here();
  auto* const trainer = here == nullptr ? nullptr : here->owner().trainer();
  if (trainer == nullptr) throw error(error_kind::input, "only a trainer function can do this: no trainer runs here");
  return *trainer;
}

void trainer_runtime::begin(msg::train& order) {
  enter(phase::running);
  assigned_ = program_assignment(order, assigned_.rules);
  calls_.reaches(assigned_.servers, assigned_.modules);
  calls_.outside().start(actor_.self->system(), order.head.run, calls_.number(), assigned_.servers, assigned_.modules,
                         requests_.executor());
  // The function decides which step is the last.
  schedule_ = {.total_steps = UINT64_MAX,
               .accumulate = assigned_.rules.accumulate,
               .saves = order.saves,
               .checkpoint_every = order.checkpoint_every};
  checkpoint_.plan(order, rank());
  checkpoint_.start(order.from.steps_done);
  step = steps_.done = order.from.steps_done;
  kept_.start(order);
  losses_.start(clock::now());
  look_for_cycles();
  executor().enter([&] {
    try {
      resume();
    } catch (const error&) {
      return ended(std::current_exception());
    }
    executor().post_function([this] { run_function(); });
  });
}

void trainer_runtime::run_function() {
  try {
    function_.has_done(steps_.done);
    function_.run(trainer(*this), actor_.name, requests_.executor(),
                  [this](const std::exception_ptr& thrown) { ended(thrown); });
  } catch (...) {  // a function that is no coroutine threw
    ended(std::current_exception());
  }
}

/// Other trainers also stop, so the message that this one waits for may never arrive.
void trainer_runtime::stop() {
  votes_.vote_to_stop();
  if (stops_alone()) executor().enter([&] { communicator_.stop_waiting(); });
}

/// Called when the trainer function has returned or thrown. Flushes its output before others learn of it: a process of
/// a role that does not end soon after the run is killed.
void trainer_runtime::ended(const std::exception_ptr& thrown) {
  std::cout.flush();
  std::fflush(stdout);
  function_.end();
  if (phase_ == phase::running) enter(phase::ending);
  caf::error cause;
  try {
    if (thrown) std::rethrow_exception(thrown);
    check_all_awaited();
    return finish_update([this] { calls_.when_answered([this] { returned(); }); });
  } catch (const fiber::unwinding&) {
    return;  // the actor unwinds the task
  } catch (const run_stopped&) {
    votes_.count({.stop = true});
    return with_all_parts([this] { deliver(); });
  } catch (const error& e) {
    if (waited_for_stopped()) {
      votes_.count({.stop = true});
      return deliver();
    }
    using actors::errc;
    const errc lost = e.kind() == error_kind::deadline ? errc::timeout : errc::peer_failed;
    const errc other = e.is_transient() ? lost : errc::exception;
    cause = actors::make_failure(e.kind() == error_kind::input ? errc::bad_input : other, e.what());
    cause = actors::cause_behind(cause, actors::devices_of(actor_.self->system()).of_trainer(rank()));
  } catch (...) {
    cause = actors::cause_of(std::current_exception());
  }
  fail(step_under_way(), cause);
}

/// Called when the trainer function has returned, and servers have answered.
void trainer_runtime::returned() {
  try {
    replicas_.drain([this] { communicator_.end(steps_.done, [this] { with_all_parts([this] { finish(); }); }); },
                    [this](const std::exception_ptr& why) { ended(why); });
  } catch (const error&) {
    ended(std::current_exception());
  }
}

void trainer_caller::callback_threw(const std::exception_ptr& thrown) { trainer_.callback_threw(thrown); }

void trainer_runtime::callback_threw(const std::exception_ptr& thrown) {
  const auto why = error_in_callback(thrown);
  if (!why || waited_for_stopped()) return;
  using actors::errc;
  const errc code = why->is_transient() ? errc::peer_failed : errc::exception;
  fail(step_under_way(), actors::make_failure(code, why->what()));
}

/// Answers the order to train.
void trainer_runtime::deliver() {
  if (phase_ == phase::over) return;  // a callback has failed it
  enter(phase::over);
  auto [digest, numbers] = replicas_.finish();
  trace.rests();
  msg::trained result{trace.next(steps_.done), steps_.done, votes_.stops(), {}, digest};
  result.server_steps = tables_.steps();
  const std::uint64_t count = numbers.size();
  if (rank() == 0) result.dense = msg::tensor::own(count, 1, std::move(numbers));
  actor_.done(std::move(result));
}

void trainer_runtime::report(msg::actor_status& now) const {
  now.phase = function_.is_under_way() ? "training" : "idle";
  communicator_.report_waits(actor_.name, now.waits);
  calls_.report_waits(actor_.name, now.waits);
}

/// If this trainer takes more steps, the run ends: they would wait for each other forever.
void trainer_runtime::take(const msg::trainer_ended& word) {
  if (word.rank != rank()) note_end(word.rank, word.steps);
}

void trainer_runtime::take(const msg::peer_ended& word) {
  executor().enter([&] {
    communicator_.take(word);
    steps_.of_ended[word.rank] = word.steps;  // before the function sees it
  });
  note_end(word.rank, word.steps);
}

void trainer_runtime::take(const msg::peer_optimizer& word) {
  communicator_.check_sender(word.rank);
  try {
    reductions_.optimizers().take(word);
  } catch (const error& e) {
    fail(step_under_way(), actors::make_failure(actors::errc::bad_input, e.what()));
  }
}

void trainer_runtime::note_end(std::uint32_t rank, std::uint64_t steps) {
  steps_.of_ended[rank] = steps;
  try {
    check_peers();
  } catch (const error& e) {
    // Steps of tables alone do not wait for each other, so this trainer may have answered; the run waits for that step.
    actor_.self->quit(
        actors::failure_of(actor_.name, steps + 1, actors::make_failure(actors::errc::bad_input, e.what())));
  }
}

/// Throws if another trainer has ended with fewer steps.
void trainer_runtime::check_peers() const {
  if (!is_synchronous() || votes_.own().stop) return;
  for (const auto& [rank, steps] : steps_.of_ended)
    if (steps < steps_.done)
      throw error(error_kind::input,
                  fmt::format("trainer {} has returned after step {}; all trainers take as many steps, and one without "
                              "data takes them with an empty context; trainer {} has taken step {}{}",
                              rank, steps, this->rank(), steps_.done, in_brackets(communicator_.place())));
}

// -- used by the function -------------------------------------------------------------

std::uint64_t trainer_runtime::begin_context() {
  if (step == steps_.done) {
    trace.step_begins(++step);
    function_.begins_step(step);
  }
  return ++steps_.contexts;
}

void trainer_runtime::set_optimizer(const model::optimizer_spec& chosen, const std::string& text,
                                    const std::vector<trained>& members) {
  for (const trained& one : members) {
    if (const auto* local = std::get_if<std::shared_ptr<replica>>(&one)) {
      (*local)->set_optimizer(chosen);
      continue;
    }
    for (const msg::module_ref& shard : assigned_.shards_of(reference_of(one)))
      actor_.self->send(shard.server, msg::set_optimizer{trace.next(step), shard.module, text, chosen.lr,
                                                         model::to_string(chosen.schedule)});
  }
}

actors::made_trainer make_trainer(caf::actor_system& system, std::uint64_t run, std::uint32_t rank,
                                  std::uint32_t servers, trainer_function function, const step_rules& rules) {
  return actors::spawn_trainer(system, run, rank, servers,
                               [function = std::move(function), rules](actors::trainer_context actor) {
                                 return std::make_unique<trainer_runtime>(std::move(actor), function, rules);
                               });
}

}  // namespace troupe::runtime
