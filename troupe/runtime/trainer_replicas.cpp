// A trainer's replicas: how they are made, take optimizer steps, and how their passes meet those of other trainers.

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
  std::uint32_t buckets = 0;
  for (const auto& one : replicas_) buckets += one->buckets();
  if (options.has_name() && !replica_names_.insert(options.name).second)
    throw error(error_kind::input,
                fmt::format("data_parallel: the name '{}' is another replica's; choose another", options.name));
  const auto words = [&] {
    return fmt::format("a replica of {} with {} parameters, their gradients and optimizer", module->type(),
                       nn::count_of(module->parameters()));
  };
  replicas_.push_back(with_memory_for(words, [&] {
    return std::make_shared<replica>(module, options, seed_, replicas_.size(), buckets, kept_, rank_,
                                     actors::devices_of(self_->system()).of_trainer(rank_));
  }));
  if (meets()) executor_->use_own_stack(true);
  return replicas_.back();
}

std::shared_ptr<pipeline_stage> trainer_runtime::make_stage(const std::vector<nn::sequential>& stages,
                                                            const pipeline_options& options) {
  pipelines_.push_back(std::make_shared<pipeline_stage>(*this, stages, options));
  return pipelines_.back();
}

// -- an optimizer step ----------------------------------------------------------------------

void trainer_runtime::check_step_awaited(const std::string& what) const {
  if (last_step_ && !last_step_->was_awaited())
    throw error(error_kind::run,
                fmt::format("{} after an optimizer step that was not awaited; co_await optimizer.step(context)", what));
}

/// What has been begun by now is awaited before the function ends.
void trainer_runtime::check_all_awaited() const {
  check_step_awaited("the trainer function ends");
  for (const auto& one : pipelines_) one->check_steps_awaited("the trainer function ends");
}

future<> trainer_runtime::take_step(tape& with, const std::vector<trained>& members) {
  check_step_awaited("an optimizer step");
  for (const auto& one : pipelines_) one->check_steps_awaited("an optimizer step");
  with.check_training("an optimizer step");
  with.check_not_going_back("optimizer step");
  if (with.has_stepped())
    throw error(
        error_kind::input,
        "a second optimizer step with one context; make a context for each step, and have one optimizer with all "
        "that is trained (distributed_optimizer::add)");
  if (step == steps_done_)
    throw error(error_kind::input,
                "an optimizer step with a context that was made before the last optimizer step; make a context for "
                "each step, after the step before it");
  const bool is_first = loops_.mark_step();
  if (saves_) check_loops(is_first);
  steps_done_ = step;
  executor_->use_own_stack(meets());
  with.mark_stepped();
  kept_.note_step();
  check_peers();
  if (saves_by_time_) look_at_clock();
  send_gradients(with, members);
  promise<> done;
  auto coming = done.get_future();
  const auto shared = std::make_shared<promise<>>(std::move(done));
  last_step_ = shared->state();
  const auto all = std::make_shared<unfinished>(shared, [this, shared] { end_step(shared); });
  for (const trained& one : members) {
    const auto* local = std::get_if<std::shared_ptr<replica>>(&one);
    if (local == nullptr) continue;
    if ((*local)->among() == nullptr) {
      reduce(with, **local, all);
    } else if (const pipeline_stage* stage = (*local)->stage(); stage != nullptr && stage->overlaps()) {
      reduce_overlapping(with, **local, all);
    } else {
      reduce_among(with, **local, step, all);
      agree(**local, all);
    }
  }
  if (meets()) stand_by(all);
  all->end_part();
  return coming;
}

/// All means of the step are applied.
void trainer_runtime::end_step(const std::shared_ptr<promise<>>& done) {
  for (const auto& one : replicas_)
    if (const auto found = one->numbers().judge(step))
      return done->fail(
          error(error_kind::run, fmt::format("{}: {}", one->label(), found->words("try a smaller learning rate"))));
  trace.step_ends(step + 1);
  if (rank_ == 0) report();
  stops_now_ = stops_now_ || (stop_wanted_ && !is_synchronous());
  if (!stops_now_ && !saves_now()) return leave_step(done);
  with_drained_stages([this, done] { leave_step(done); }, [done](const std::exception_ptr& why) { done->fail(why); });
}

/// The function goes on after a step, or ends; a checkpoint may come first.
void trainer_runtime::leave_step(const std::shared_ptr<promise<>>& done) {
  const auto go_on = [this, done] {
    if (stops_now_) return done->fail(std::make_exception_ptr(run_stopped()));
    done->set();
  };
  if (!saves_) return go_on();
  try {
    kept_.hold();
  } catch (...) {
    return done->fail(std::current_exception());
  }
  if (!saves_now()) return go_on();
  save(go_on, [done](const error& why) { done->fail(why); });
}

/// Sends the replica's buckets to the group. The means are parts of `all`.
void trainer_runtime::reduce(tape& with, replica& one, const unfinished_ptr& all) {
  actors::trained_parameters& numbers = one.numbers();
  numbers.open(step);
  const auto send = [&](std::uint32_t bucket) {
    if (!one.is_synchronized()) return numbers.take(bucket, numbers.share(bucket, 0));
    all->begin_part();
    const std::uint32_t weight = numbers.weight(bucket, rank_);
    msg::tensor share = numbers.share(bucket, rank_);
    msg::reduce message{trace.next(step), rank_,       one.first_bucket() + bucket, weight, stop_wanted_,
                        std::move(share), save_wanted_};
    ask<msg::reduced>(
        peers_.group, peers_.group_number, std::move(message), caf::infinite,
        [this, &numbers, bucket, all](const msg::reduced& mean) {
          numbers.take(bucket, mean.grad);
          follow({mean.stop, mean.save});
          all->end_part();
        },
        [all](const caf::error& why) { all->fail(to_error(why)); });
  };
  one.backward(with, step, [&](std::uint32_t bucket) {
    if (one.is_synchronized()) send(bucket);  // else its parameters change when the pass is over
  });
  // Without a pass in this context, or of a module without parameters, the shares are zeros.
  for (std::uint32_t bucket = 0; bucket < numbers.buckets(); ++bucket)
    if (!numbers.is_reducing(bucket)) send(bucket);
}

/// Reduces a replica with those of some trainers, as a stage with the same one of the other replicas, and applies the
/// mean as optimizer step `update`. The means are parts of `all`.
void trainer_runtime::reduce_among(tape& with, replica& one, std::uint64_t update, const unfinished_ptr& all) {
  actors::trained_parameters& numbers = one.numbers();
  const group& members = *one.among();
  numbers.open(update);
  // A sum goes with its weight, the number of replicas that have a batch. One that is here at once is taken when the
  // pass is over; of a trainer alone there is none.
  const bool is_alone = members.size() == 1;
  std::vector<std::pair<std::uint32_t, future<tensor>>> sums;
  const auto send = [&](std::uint32_t bucket) {
    if (is_alone) return numbers.take(bucket, numbers.share(bucket, 0));
    const std::uint32_t weight = numbers.weight(bucket, members.rank());
    std::vector<float> share = numbers.on_host(numbers.share(bucket, members.rank()));
    share.push_back(static_cast<float>(weight));
    sums.emplace_back(bucket,
                      members.all_reduce(tensor::of<float>(shape(share.size()), std::span<const float>(share))));
  };
  one.backward(with, update, [&](std::uint32_t bucket) {
    if (!is_alone) send(bucket);
  });
  for (std::uint32_t bucket = 0; bucket < numbers.buckets(); ++bucket)
    if (!numbers.is_reducing(bucket)) send(bucket);
  for (std::size_t i = 0; i < sums.size(); ++i) all->begin_part();
  for (auto& [bucket, sum] : sums)
    std::move(sum).then([&numbers, bucket = bucket, all](future<tensor> here) {
      try {
        const tensor weighed = here.get();
        const auto sums_and_weight = weighed.as<float>();
        const auto mean = sums_and_weight.first(sums_and_weight.size() - 1);
        const float weight = sums_and_weight.back();
        if (weight > 1) kernels::host_stream().multiply(mean.size(), 1.0F / weight, mean.data());
        numbers.take(bucket, numbers.as_share(mean));
        all->end_part();
      } catch (...) {
        all->fail(std::current_exception());
      }
    });
}

future<> trainer_runtime::apply_gradient(tape& of, replica& one, std::uint64_t update) {
  promise<> done;
  auto coming = done.get_future();
  auto shared = std::make_shared<promise<>>(std::move(done));
  const auto all = std::make_shared<unfinished>(shared, [shared] { shared->set(); });
  reduce_among(of, one, update, all);
  all->end_part();
  return coming;
}

/// Asks all trainers, by the bucket that a replica has for that, what they wish after this step.
future<trainer_runtime::wishes> trainer_runtime::ask_wishes(replica& by) {
  promise<wishes> answer;
  auto coming = answer.get_future();
  const auto shared = std::make_shared<promise<wishes>>(std::move(answer));
  const std::vector<float> none(1);
  ask<msg::reduced>(
      peers_.group, peers_.group_number,
      msg::reduce{trace.next(step), rank_, by.first_bucket(), 1, stop_wanted_, by.numbers().as_share(none),
                  save_wanted_},
      caf::infinite,
      [shared](const msg::reduced& agreed) {
        shared->set(wishes{agreed.stop, agreed.save});
      },
      [shared](const caf::error& why) { shared->fail(to_error(why)); });
  return coming;
}

/// All trainers agree on what follows the step: a part of `all`.
void trainer_runtime::agree(replica& one, const unfinished_ptr& all) {
  all->begin_part();
  ask_wishes(one).then([this, all](future<wishes> here) {
    try {
      follow(here.get());
      all->end_part();
    } catch (...) {
      all->fail(std::current_exception());
    }
  });
}

/// Trainers whose steps overlap are up to P - 1 steps apart, and do not wait for each other: every P steps they follow
/// what they wished P steps before.
void trainer_runtime::agree_later(replica& one, const unfinished_ptr& all) {
  if (step % one.stage()->place().stages != 0) return;
  if (!agreed_) {
    agreed_ = ask_wishes(one);
    return;
  }
  all->begin_part();
  std::move(*agreed_).then([this, &one, all](future<wishes> here) {
    try {
      follow(here.get());
      save_wanted_ = save_wanted_ && !saving_;
      agreed_ = ask_wishes(one);
      all->end_part();
    } catch (...) {
      all->fail(std::current_exception());
    }
  });
}

/// Takes the optimizer step of a stage whose steps overlap, if a batch has come back.
void trainer_runtime::reduce_overlapping(tape& with, replica& one, const unfinished_ptr& all) {
  if (const auto update = one.stage()->take_gradient(with)) reduce_among(with, one, *update, all);
  agree_later(one, all);
}

task<> trainer_runtime::drain_stages() {
  for (const auto& one : pipelines_) co_await one->drain();
}

/// Calls `then` when all batches of overlapping steps have come back and are applied.
void trainer_runtime::with_drained_stages(std::function<void()> then,
                                          std::function<void(const std::exception_ptr&)> on_error) {
  if (std::ranges::none_of(pipelines_, [](const auto& one) { return one->overlaps(); })) return then();
  draining_ =
      running_task(drain_stages(), [then = std::move(then), on_error = std::move(on_error)](
                                       const std::exception_ptr& thrown) { thrown ? on_error(thrown) : then(); });
}

// -- pipelines, and passes of several trainers ----------------------------------------------

task<> trainer_runtime::collect_stages() {
  for (std::size_t i = 0; i < pipelines_.size(); ++i) {
    const model::stage_place& at = pipelines_[i]->place();
    std::vector<std::uint32_t> members(at.stages);
    std::iota(members.begin(), members.end(), rank_ - at.stage);
    const group last(communicator_.of_ends(members), std::chrono::milliseconds::max());
    co_await pipelines_[i]->collect(last, static_cast<std::uint32_t>(i));
  }
}

/// Calls `then` when the first stages have the weights of all stages.
void trainer_runtime::with_all_stages(std::function<void()> then) {
  if (pipelines_.empty()) return then();
  collecting_ = running_task(collect_stages(), [this, then = std::move(then)](const std::exception_ptr& thrown) {
    if (thrown) return ended(thrown);
    then();
  });
}

bool trainer_runtime::meets() const {
  return trainers_ > 1 && std::ranges::any_of(replicas_, [](const auto& one) { return one->meets(); });
}

future<std::vector<tensor>> trainer_runtime::meet(std::string words, tensor numbers) {
  return communicator_.call<std::vector<tensor>>(
      *communicator_.all(group_name::of_passes),
      {.kind = collective_kind::meeting, .input = std::move(numbers), .words = std::move(words)}, deadline());
}

/// Takes part in the passes of other trainers, without numbers, until all trainers are at this step.
void trainer_runtime::stand_by(const unfinished_ptr& all) {
  all->begin_part();
  meet("the optimizer step", tensor({0})).then([this, all](future<std::vector<tensor>> met) {
    try {
      const auto theirs = met.get();
      if (std::ranges::any_of(theirs, [](const tensor& one) { return one.count() > 0; })) stand_by(all);
      all->end_part();
    } catch (...) {
      all->fail(std::current_exception());
    }
  });
}

}  // namespace troupe::runtime
