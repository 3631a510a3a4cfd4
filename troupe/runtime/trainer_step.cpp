// A trainer's optimizer steps.

#include <fmt/format.h>

#include <utility>

#include "base/exception_text.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/errors.hpp"
#include "troupe/runtime/tensor_slice.hpp"
#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe::runtime {

std::shared_ptr<replica> trainer_runtime::make_replica(std::shared_ptr<const nn::module> module,
                                                       const data_parallel_options& options) {
  std::shared_ptr<tensor_slice> slice;
  if (options.tensor_parallel != 1) {
    slice = std::make_shared<tensor_slice>(*this, *module, options);
    module = slice->module();
  }
  auto made = replicas_.make(std::move(module), std::move(slice), options, assigned_,
                             actors::devices_of(actor_.self->system()).of_trainer(rank()));
  if (made->waits_in_passes()) choose_stack();
  return made;
}

std::shared_ptr<pipeline_stage> trainer_runtime::make_stage(const std::vector<nn::sequential>& stages,
                                                            const pipeline_options& options) {
  const step_rules& rules = assigned_.rules;
  if (options.schedule == pipeline_schedule::pipedream && (rules.accumulate > 1 || rules.applies_whole()))
    throw error(error_kind::input,
                "pipeline: pipedream, whose steps overlap, has no step of all trainers: use another schedule with "
                "accumulate, clip_norm or nan_policy::skip");
  return replicas_.add(std::make_shared<pipeline_stage>(*this, stages, options));
}

// -- an optimizer step ----------------------------------------------------------------------

void trainer_runtime::check_step_awaited(std::string_view what) const {
  if (has_open_step())
    throw error(error_kind::run,
                fmt::format("{} after an optimizer step that was not awaited; co_await optimizer.step(context)", what));
}

/// Everything begun so far must be awaited before the function ends.
void trainer_runtime::check_all_awaited() const {
  check_step_awaited("the trainer function ends");
  replicas_.check_steps_awaited("the trainer function ends");
}

future<> trainer_runtime::take_step(tape& with, const std::vector<trained>& members, optimizer_text& text) {
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
  choose_stack();
  with.mark_stepped();
  kept_.note_step();
  check_peers();
  reductions_.optimizers().use(text, step);
  return take_part(with, members, schedule_.ends_update(step));
}

/// Throws `error` unless all parts of an optimizer step have the same members: servers count the steps that they take
/// part in.
void trainer_runtime::check_same_members(const std::vector<trained>& members) const {
  if (!schedule_.begins_update(step) && members != steps_.members)
    throw error(error_kind::input,
                fmt::format("an optimizer step with other members than the one before, within {} that make up one "
                            "(accumulate); take all of them with one distributed_optimizer",
                            schedule_.accumulate));
}

namespace {

/// Whether an optimizer step with this member ends only when all trainers have taken it.
bool is_stepped_by_all(const trained& member) {
  const auto* local = std::get_if<std::shared_ptr<replica>>(&member);
  if (local == nullptr) return false;
  replica& one = **local;
  if (one.group() == nullptr) return one.is_synchronized() && one.buckets() > 0;
  return one.stage() == nullptr || !one.stage()->overlaps();
}

}  // namespace

/// Adds the gradient of a context to its optimizer step. `ends`: it is the last one, and the step is taken.
future<> trainer_runtime::take_part(tape& with, const std::vector<trained>& members, bool ends) {
  const step_rules& rules = assigned_.rules;
  if (rules.accumulate > 1) check_same_members(members);
  if (rules.accumulate > 1 || rules.applies_whole()) steps_.members = members;
  if (ends) vote_to_save();
  const bool counts_batch = std::ranges::none_of(members, [](const trained& one) {
    const auto* local = std::get_if<std::shared_ptr<replica>>(&one);
    return local != nullptr && (*local)->shares_batch();
  });
  tables_.send_gradients(with, members, ends && !rules.applies_whole(), counts_batch);
  promise<> done;
  auto coming = done.get_future();
  const auto shared = std::make_shared<promise<>>(std::move(done));
  steps_.last = shared->state();
  steps_.waits_for_all =
      assigned_.trainers > 1 && (synchronizes() || (ends && std::ranges::any_of(members, is_stepped_by_all)));
  const bool is_agreed_on = ends && rules.applies_whole();
  const auto all = std::make_shared<completion>(shared, [this, is_agreed_on](const auto& taken) {
    if (!is_agreed_on) return end_step(taken);
    whole_.apply(steps_.members, step, taken, [this, taken] { end_step(taken); });
  });
  if (is_agreed_on) tables_.ask_for_norms(members, all);
  const step_reductions::update_part part{schedule_.update(step), schedule_.begins_update(step), ends};
  for (const trained& one : members)
    if (const auto* local = std::get_if<std::shared_ptr<replica>>(&one)) reductions_.reduce(with, **local, part, all);
  if (synchronizes()) reductions_.join_idle(all);
  all->end_part();
  return coming;
}

/// If the function has returned within an optimizer step, takes that with the gradients so far, as a job's last
/// optimizer step may have fewer batches. Its missing batches count as steps, so that a resumed run begins the next
/// one. Then calls `then`.
void trainer_runtime::finish_update(std::function<void()> then) {
  if (steps_.members.empty() || schedule_.ends_update(steps_.done)) return then();
  kept_.end();
  const auto rest = std::make_shared<tape>(*this, true);
  step = steps_.done = schedule_.update(step) * schedule_.accumulate;
  tables_.go_to_last_of(schedule_.accumulate);
  take_part(*rest, std::vector<trained>(steps_.members), true)
      .then([this, rest, then = std::move(then)](future<> taken) {
        try {
          taken.get();
          for (const auto& one : replicas_.all()) one->numbers().synchronize();
          if (auto spoilt = replicas_.spoilt(step)) throw error(*spoilt);
          then();
        } catch (...) {
          ended(std::current_exception());
        }
      });
}

/// Called when all means of the step are applied.
void trainer_runtime::end_step(const std::shared_ptr<promise<>>& done) {
  if (auto spoilt = replicas_.spoilt(step)) return done->fail(*spoilt);
  const bool is_whole = schedule_.ends_update(steps_.done);
  for (const auto& one : replicas_.all())
    if (is_whole) one->numbers().forget_buffers();  // including replicas that it has not trained
  trace.step_ends(step + 1);
  if (rank() == 0) report();
  votes_.count({.stop = votes_.own().stop && !is_synchronous() && is_whole});
  if (!votes_.stops() && !saves_now()) return leave_step(done);
  replicas_.drain([this, done] { leave_step(done); }, [done](const std::exception_ptr& why) { done->fail(why); });
}

/// Resumes the function after a step, or ends it; first saves a checkpoint if one is due.
void trainer_runtime::leave_step(const std::shared_ptr<promise<>>& done) {
  const auto proceed = [this, done] {
    if (votes_.stops()) return done->fail(std::make_exception_ptr(run_stopped()));
    function_.has_done(steps_.done);
    done->set();
  };
  if (!schedule_.saves) return proceed();
  try {
    kept_.hold();
  } catch (...) {
    return done->fail(std::current_exception());
  }
  if (!saves_now()) return proceed();
  save(proceed, [done](const error& why) { done->fail(why); });
}

}  // namespace troupe::runtime
