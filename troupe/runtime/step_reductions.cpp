#include "troupe/runtime/step_reductions.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "troupe/runtime/errors.hpp"
#include "troupe/runtime/pipeline_stage.hpp"

namespace troupe::runtime {

void step_reductions::reduce(tape& with, replica& one, const update_part& as, const completion_ptr& all) {
  if (one.group() == nullptr) return reduce_among_all(with, one, as, all);
  if (const pipeline_stage* stage = one.stage(); stage != nullptr && stage->overlaps())
    return reduce_overlapping(with, one, all);
  reduce_among_some(with, one, as, all);
  if (as.ends) agree(one, all);
}

/// Sends the group this trainer's share of a bucket.
void step_reductions::send_share(std::uint32_t bucket, std::uint32_t weight, msg::tensor share, auto on_mean,
                                 auto on_error) {
  const actors::allreduce_client group(requests_.actor(), assigned_.group, assigned_.group_number,
                                       requests_.actor().rank);
  group.reduce(step(), bucket, weight, std::move(share), votes_.own(), requests_.entering(std::move(on_mean)),
               requests_.entering(std::move(on_error)));
}

namespace {

/// Returns the mean of a bucket over this replica's batches alone, if it is not reduced with others.
msg::tensor mean_alone(actors::trained_parameters& numbers, std::uint32_t bucket) {
  msg::tensor share = numbers.share(bucket, 0);
  const std::uint32_t batches = numbers.weight(bucket, 0);
  if (batches <= 1) return share;
  std::vector<float> sum = numbers.on_host(share);
  kernels::host_stream().multiply(sum.size(), 1.0F / static_cast<float>(batches), sum.data());
  return numbers.as_mean(sum);
}

}  // namespace

/// Sends the replica's buckets to the group. Each mean is a part of `all`.
void step_reductions::reduce_among_all(tape& with, replica& one, const update_part& as, const completion_ptr& all) {
  actors::trained_parameters& numbers = one.numbers();
  if (as.begins) numbers.open(as.update);
  const auto send = [&](std::uint32_t bucket) {
    if (!one.is_synchronized()) return numbers.take(bucket, mean_alone(numbers, bucket));
    all->begin_part();
    const std::uint32_t weight = numbers.weight(bucket, requests_.actor().rank);
    msg::tensor share = numbers.share(bucket, requests_.actor().rank);
    send_share(
        one.first_bucket() + bucket, weight, std::move(share),
        // `all = all`: capturing a const object would make a const member, which moves of the callbacks would copy.
        [this, &numbers, bucket, all = all](const msg::reduced& mean) {
          numbers.take(bucket, mean.grad);
          votes_.count({mean.stop, mean.save});
          all->end_part();
        },
        [all = all](const caf::error& why) { all->fail(to_error(why)); });
  };
  one.backward(with, step(), as.ends, [&](std::uint32_t bucket) {
    if (one.is_synchronized()) send(bucket);  // else parameters would change during the pass
  });
  if (!as.ends) return;
  // Without a pass in this context, or for a module without parameters, the shares are zeros.
  for (std::uint32_t bucket = 0; bucket < numbers.buckets(); ++bucket)
    if (!numbers.is_reducing(bucket)) send(bucket);
}

/// Reduces a replica with those of some trainers, such as the same stage of other replicas, and applies the mean. Each
/// mean is a part of `all`.
void step_reductions::reduce_among_some(tape& with, replica& one, const update_part& as, const completion_ptr& all) {
  actors::trained_parameters& numbers = one.numbers();
  const group& members = *one.group();
  if (as.begins) numbers.open(as.update);
  // A sum carries its weight: the number of replicas with a batch. A sum that has already arrived is used as soon as
  // the pass is over. A trainer alone in its group needs no sum.
  const bool is_alone = members.size() == 1;
  std::vector<std::pair<std::uint32_t, future<tensor>>> sums;
  const auto send = [&](std::uint32_t bucket) {
    if (is_alone) return numbers.take(bucket, mean_alone(numbers, bucket));
    const std::uint32_t weight = numbers.weight(bucket, members.rank());
    std::vector<float> share = numbers.on_host(numbers.share(bucket, members.rank()));
    share.push_back(static_cast<float>(weight));
    sums.emplace_back(bucket, members.all_reduce(tensor::of<float>(shape(share.size()), std::span<const float>(share)),
                                                 reduce_op::sum, {}));
  };
  one.backward(with, as.update, as.ends, [&](std::uint32_t bucket) {
    if (!is_alone) send(bucket);
  });
  if (!as.ends) return;
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
        numbers.take(bucket, numbers.as_mean(mean));
        all->end_part();
      } catch (...) {
        all->fail(std::current_exception());
      }
    });
}

future<> step_reductions::apply_gradient(tape& of, replica& one, std::uint64_t update) {
  promise<> done;
  auto coming = done.get_future();
  auto shared = std::make_shared<promise<>>(std::move(done));
  const auto all = std::make_shared<completion>(shared, [](const auto& done_now) { done_now->set(); });
  reduce_among_some(of, one, {update}, all);
  all->end_part();
  return coming;
}

/// Requests all trainers' votes, with the replica's bucket for votes.
future<step_reductions::vote> step_reductions::ask_for_votes(replica& by) {
  promise<vote> answer;
  auto coming = answer.get_future();
  const auto shared = std::make_shared<promise<vote>>(std::move(answer));
  const std::vector<float> none(1);
  send_share(
      by.first_bucket(), 1, by.numbers().as_share(none),
      [shared](const msg::reduced& all) {
        shared->set(vote{all.stop, all.save});
      },
      [shared](const caf::error& why) { shared->fail(to_error(why)); });
  return coming;
}

/// Makes all trainers agree on what follows the step, as a part of `all`.
void step_reductions::agree(replica& one, const completion_ptr& all) {
  all->begin_part();
  ask_for_votes(one).then([this, all](future<vote> here) {
    try {
      votes_.count(here.get());
      all->end_part();
    } catch (...) {
      all->fail(std::current_exception());
    }
  });
}

/// Trainers whose steps overlap are up to P - 1 steps apart, and do not wait for each other: every P steps they follow
/// the votes of P steps before.
void step_reductions::agree_later(replica& one, const completion_ptr& all) {
  if (step() % one.stage()->place().stages != 0) return;
  if (!late_votes_) {
    late_votes_ = ask_for_votes(one);
    return;
  }
  all->begin_part();
  std::move(*late_votes_).then([this, &one, all](future<vote> here) {
    try {
      votes_.count(here.get());
      votes_.vote_to_save(votes_.own().save && !votes_.saves());
      late_votes_ = ask_for_votes(one);
      all->end_part();
    } catch (...) {
      all->fail(std::current_exception());
    }
  });
}

/// Takes the optimizer step of a stage with overlapping steps, if a batch has come back.
void step_reductions::reduce_overlapping(tape& with, replica& one, const completion_ptr& all) {
  if (const auto update = one.stage()->take_gradient(with)) reduce_among_some(with, one, {*update}, all);
  agree_later(one, all);
}

// -- passes of several trainers -------------------------------------------------------------

future<std::vector<tensor>> step_reductions::gather(std::string text, tensor numbers) {
  return communicator_.call<std::vector<tensor>>(
      *communicator_.all(group_name::of_passes),
      {.kind = collective_kind::meeting, .input = std::move(numbers), .text = std::move(text)},
      {assigned_.deadline(), communicator_.place()});
}

void step_reductions::join_idle(const completion_ptr& all) {
  all->begin_part();
  gather("the optimizer step", tensor({0})).then([this, all](future<std::vector<tensor>> met) {
    try {
      const auto theirs = met.get();
      if (std::ranges::any_of(theirs, [](const tensor& one) { return one.count() > 0; })) join_idle(all);
      all->end_part();
    } catch (...) {
      all->fail(std::current_exception());
    }
  });
}

}  // namespace troupe::runtime
