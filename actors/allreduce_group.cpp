#include "actors/allreduce_group.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/actor_name.hpp"
#include "kernels/elementwise.hpp"
#include "protocol/inspect.hpp"

namespace troupe {

void allreduce_group_state::start(std::uint64_t run, std::uint32_t trainers) {
  run_ = run;
  trainers_ = trainers;
  headers_ = header_source(run, group_number);
}

caf::result<reduced> allreduce_group_state::handle(reduce& share) {
  step = std::max(step, share.head.step);
  collection& all = open_[{share.head.step, share.bucket}];
  if (all.ranks.empty()) {
    if (!spare_.empty()) {
      all = std::move(spare_.back());
      spare_.pop_back();
    }
    all.ranks.resize(trainers_);
  }
  if (auto error = check(share, all)) return failure_of(name, share.head.step, error);

  share_of_rank& mine = all.ranks[share.rank];
  mine.arrived = true;
  mine.message = std::move(share);
  mine.promise = self_->make_response_promise<reduced>();
  auto promise = mine.promise;
  if (++all.arrived == trainers_) {
    const auto key = std::pair(mine.message.head.step, mine.message.bucket);
    finish(all);
    for (share_of_rank& rank : all.ranks) rank = {};
    all.arrived = 0;
    spare_.push_back(std::move(all));
    open_.erase(key);
  }
  return promise;
}

caf::error allreduce_group_state::check(const reduce& share, const collection& so_far) const {
  if (share.head.run != run_)
    return make_failure(errc::wrong_context, fmt::format("a bucket of run {}, this is run {}", share.head.run, run_));
  if (share.rank >= trainers_)
    return make_failure(errc::bad_input, fmt::format("a bucket of rank {}, the group has {}", share.rank, trainers_));
  if (so_far.ranks[share.rank].arrived)
    return make_failure(errc::wrong_context, fmt::format("bucket {} of rank {} twice", share.bucket, share.rank));
  if (share.grad.type != dtype::f32 || !share.grad.consistent())
    return make_failure(errc::shape_mismatch, fmt::format("bucket {} of rank {} is not a float32 tensor of its shape",
                                                          share.bucket, share.rank));
  for (const share_of_rank& other : so_far.ranks)
    if (other.arrived && other.message.grad.bytes.size() != share.grad.bytes.size())
      return make_failure(errc::shape_mismatch,
                          fmt::format("bucket {}: rank {} sent {} bytes, rank {} sent {}", share.bucket, share.rank,
                                      share.grad.bytes.size(), other.message.rank, other.message.grad.bytes.size()));
  return {};
}

void allreduce_group_state::finish(const collection& all) {
  inputs_.clear();
  bool stop = false;
  std::uint64_t batches = 0;
  for (const share_of_rank& rank : all.ranks) {
    stop = stop || rank.message.stop;
    if (rank.message.batches > 0) inputs_.push_back(rank.message.grad.as<float>().data());
    batches += rank.message.batches;
  }
  const reduce& any = all.ranks.front().message;
  tensor_buffer sum(any.grad.rows, any.grad.cols);
  if (inputs_.empty())
    std::fill_n(sum.data(), sum.size(), 0.0F);
  else
    kernels::sum_in_rank_order(inputs_, sum.size(), 1.0F / static_cast<float>(batches), sum.data());
  const tensor mean = std::move(sum).freeze();
  for (const share_of_rank& rank : all.ranks) {
    auto promise = rank.promise;
    promise.deliver(reduced{headers_.next(any.head.step, id_of(rank.message.head)), any.bucket, stop, mean});
  }
}

allreduce_actor::behavior_type allreduce_group(allreduce_group_state::pointer self, std::uint64_t run,
                                               std::uint32_t trainers) {
  self->state.start(run, trainers);
  fail_on_exceptions(self);
  return {[self](reduce& share) { return self->state.handle(share); }};
}

}  // namespace troupe
