// A trainer's optimizer steps.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "base/exception_text.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/errors.hpp"
#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe::runtime {

std::shared_ptr<replica> trainer_runtime::make_replica(std::shared_ptr<const nn::module> module,
                                                       const data_parallel_options& options) {
  auto made =
      replicas_.make(std::move(module), options, seed(), actors::devices_of(actor_.self->system()).of_trainer(rank()));
  if (meets()) executor_->use_own_stack(true);
  return made;
}

std::shared_ptr<pipeline_stage> trainer_runtime::make_stage(const std::vector<nn::sequential>& stages,
                                                            const pipeline_options& options) {
  return replicas_.add(std::make_shared<pipeline_stage>(*this, stages, options));
}

// -- an optimizer step ----------------------------------------------------------------------

void trainer_runtime::check_step_awaited(const std::string& what) const {
  if (steps_.last && !steps_.last->was_awaited())
    throw error(error_kind::run,
                fmt::format("{} after an optimizer step that was not awaited; co_await optimizer.step(context)", what));
}

/// What has been begun by now is awaited before the function ends.
void trainer_runtime::check_all_awaited() const {
  check_step_awaited("the trainer function ends");
  replicas_.check_steps_awaited("the trainer function ends");
}

future<> trainer_runtime::take_step(tape& with, const std::vector<trained>& members) {
  check_step_awaited("an optimizer step");
  replicas_.check_steps_awaited("an optimizer step");
  with.check_training("an optimizer step");
  with.check_not_going_back("optimizer step");
  if (with.has_stepped())
    throw error(
        error_kind::input,
        "a second optimizer step with one context; make a context for each step, and have one optimizer with all "
        "that is trained (distributed_optimizer::add)");
  if (step == steps_.done)
    throw error(error_kind::input,
                "an optimizer step with a context that was made before the last optimizer step; make a context for "
                "each step, after the step before it");
  const bool is_first = loops().mark_step();
  if (schedule_.saves) check_loops(is_first);
  steps_.done = step;
  executor_->use_own_stack(meets());
  with.mark_stepped();
  kept_.note_step();
  check_peers();
  vote_to_save();
  tables_.send_gradients(with, members);
  promise<> done;
  auto coming = done.get_future();
  const auto shared = std::make_shared<promise<>>(std::move(done));
  steps_.last = shared->state();
  const auto all = std::make_shared<unfinished>(shared, [this, shared] { end_step(shared); });
  for (const trained& one : members)
    if (const auto* local = std::get_if<std::shared_ptr<replica>>(&one)) reductions_.reduce(with, **local, all);
  if (meets()) reductions_.stand_by(all);
  all->end_part();
  return coming;
}

/// All means of the step are applied.
void trainer_runtime::end_step(const std::shared_ptr<promise<>>& done) {
  for (const auto& one : replicas_.all())
    if (const auto found = one->numbers().judge(step))
      return done->fail(
          error(error_kind::run, fmt::format("{}: {}", one->label(), found->words("try a smaller learning rate"))));
  trace.step_ends(step + 1);
  if (rank() == 0) report();
  votes_.count({.stop = votes_.own().stop && !is_synchronous()});
  if (!votes_.stops() && !saves_now()) return leave_step(done);
  replicas_.drain([this, done] { leave_step(done); }, [done](const std::exception_ptr& why) { done->fail(why); });
}

/// Lets the function continue after a step, or ends it; before that it saves a checkpoint if one is due.
void trainer_runtime::leave_step(const std::shared_ptr<promise<>>& done) {
  const auto go_on = [this, done] {
    if (votes_.stops()) return done->fail(std::make_exception_ptr(run_stopped()));
    done->set();
  };
  if (!schedule_.saves) return go_on();
  try {
    kept_.hold();
  } catch (...) {
    return done->fail(std::current_exception());
  }
  if (!saves_now()) return go_on();
  save(go_on, [done](const error& why) { done->fail(why); });
}

}  // namespace troupe::runtime
