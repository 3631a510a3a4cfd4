// A trainer's replicas: how they are made, their gradients reduced, and their passes meet those of other trainers.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

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
  replicas_.push_back(std::make_shared<replica>(std::move(module), options, seed_, replicas_.size(), buckets, kept_,
                                                rank_, actors::devices_of(self_->system()).of_trainer(rank_)));
  if (meets()) executor_->use_own_stack(true);
  return replicas_.back();
}

std::shared_ptr<pipeline_stage> trainer_runtime::make_stage(const std::vector<nn::sequential>& stages,
                                                            const pipeline_options& options) {
  pipelines_.push_back(std::make_shared<pipeline_stage>(*this, stages, options));
  return pipelines_.back();
}

/// Sends the replica's buckets to the group. When the mean of the last one has come, `done`.
void trainer_runtime::reduce(tape& with, replica& one, const std::shared_ptr<promise<>>& done,
                             const std::shared_ptr<int>& missing) {
  actors::trained_parameters& numbers = one.numbers();
  numbers.open(step);
  const auto send = [&](std::uint32_t bucket) {
    if (!one.is_synchronized()) return numbers.take(bucket, numbers.share(bucket, 0));
    ++*missing;
    const std::uint32_t weight = numbers.weight(bucket, rank_);
    msg::tensor share = numbers.share(bucket, rank_);
    msg::reduce message{trace.next(step), rank_,       one.first_bucket() + bucket, weight, stop_wanted_,
                        std::move(share), save_wanted_};
    ask<msg::reduced>(
        peers_.group, peers_.group_number, std::move(message),
        [this, &numbers, bucket, done, missing](const msg::reduced& mean) {
          numbers.take(bucket, mean.grad);
          stops_now_ = stops_now_ || mean.stop;
          saving_ = saving_ || mean.save;
          if (--*missing == 0) end_step(done);
        },
        [done](const caf::error& why) { done->fail(to_error(why)); });
  };
  one.backward(with, step, [&](std::uint32_t bucket) {
    if (one.is_synchronized()) send(bucket);  // else its parameters change when the pass is over
  });
  // Without a pass in this context, or of a module without parameters, the shares are zeros.
  for (std::uint32_t bucket = 0; bucket < numbers.buckets(); ++bucket)
    if (!numbers.is_reducing(bucket)) send(bucket);
}

/// Reduces a replica with those of some trainers, as a stage with the same one of the other replicas. When the means
/// have come, and all trainers have agreed on what follows the step, `done`.
void trainer_runtime::reduce_among(tape& with, replica& one, const std::shared_ptr<promise<>>& done,
                                   const std::shared_ptr<int>& missing) {
  actors::trained_parameters& numbers = one.numbers();
  const group& members = *one.among();
  numbers.open(step);
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
  one.backward(with, step, [&](std::uint32_t bucket) {
    if (!is_alone) send(bucket);
  });
  for (std::uint32_t bucket = 0; bucket < numbers.buckets(); ++bucket)
    if (!numbers.is_reducing(bucket)) send(bucket);
  *missing += static_cast<int>(sums.size()) + 1;
  for (auto& [bucket, sum] : sums)
    std::move(sum).then([this, &numbers, bucket = bucket, done, missing](future<tensor> here) {
      try {
        const tensor weighed = here.get();
        const auto all = weighed.as<float>();
        const auto mean = all.first(all.size() - 1);
        if (all.back() > 1) kernels::host_stream().multiply(mean.size(), 1.0F / all.back(), mean.data());
        numbers.take(bucket, numbers.as_share(mean));
        if (--*missing == 0) end_step(done);
      } catch (...) {
        done->fail(std::current_exception());
      }
    });
  const std::vector<float> none(1);
  ask<msg::reduced>(
      peers_.group, peers_.group_number,
      msg::reduce{trace.next(step), rank_, one.first_bucket(), 1, stop_wanted_, numbers.as_share(none), save_wanted_},
      [this, done, missing](const msg::reduced& agreed) {
        stops_now_ = stops_now_ || agreed.stop;
        saving_ = saving_ || agreed.save;
        if (--*missing == 0) end_step(done);
      },
      [done](const caf::error& why) { done->fail(to_error(why)); });
}

task<> trainer_runtime::collect_stages() {
  for (std::size_t i = 0; i < pipelines_.size(); ++i) {
    const actors::stage_place& at = pipelines_[i]->place();
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
void trainer_runtime::stand_by(const std::shared_ptr<promise<>>& done, const std::shared_ptr<int>& missing) {
  ++*missing;
  meet("the optimizer step", tensor({0})).then([this, done, missing](future<std::vector<tensor>> met) {
    try {
      const auto all = met.get();
      if (std::ranges::any_of(all, [](const tensor& one) { return one.count() > 0; })) stand_by(done, missing);
      if (--*missing == 0) end_step(done);
    } catch (...) {
      done->fail(std::current_exception());
    }
  });
}

}  // namespace troupe::runtime
