#include "actors/allreduce_group.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "actors/actor_name.hpp"
#include "actors/traced_system.hpp"
#include "kernels/elementwise.hpp"
#include "protocol/errors.hpp"
#include "protocol/messages.hpp"

namespace troupe {

void allreduce_group_state::start(std::uint64_t run, group_layout layout) {
  run_ = run;
  layout_ = std::move(layout);
  const bool is_only = processes() == 1;
  trace.start(self_, self_->system(), run, is_only ? group_number : group_sender(layout_.me),
              is_only ? name : fmt::format("{} {}", name, layout_.me));
  if (const compute_devices devices = devices_of(self_->system()); devices.trainers) use_devices(devices);
  if (layout_.patience.count() > 0) look_for_late_ranks();
}

/// Whether sending a bucket whole, once more than needed for each other process, beats waiting for a second message.
bool allreduce_group_state::goes_whole(std::uint64_t count) const {
  constexpr std::uint64_t small_bytes = std::uint64_t{64} << 10;
  return processes() == 1 || count * sizeof(float) * (processes() - 1) <= small_bytes;
}

/// The slice of a bucket that `process` sums up, in whole cache lines.
allreduce_group_state::slice allreduce_group_state::slice_of(std::uint32_t process, std::uint64_t count) const {
  if (reduction_) return {0, 0};
  if (goes_whole(count)) return {0, count};
  constexpr std::uint64_t line = 16;
  const auto begin = [&](std::uint64_t i) {
    return std::min(count, (count + line - 1) / line * i / processes() * line);
  };
  return {begin(process), begin(process + 1) - begin(process)};
}

allreduce_group_state::collection& allreduce_group_state::open(const key& which, std::uint64_t count) {
  step = std::max(step, which.first);
  const auto [at, is_new] = open_.try_emplace(which);
  collection& all = at->second;
  if (!is_new) return all;
  if (!spare_.empty()) {
    all = std::move(spare_.back());
    spare_.pop_back();
  }
  all.ranks.resize(trainers());
  all.count = count;
  all.sequence = ++collectives_;
  all.launched = trace.latest();
  if (layout_.patience.count() > 0) all.begin = std::chrono::steady_clock::now();
  all.sums_missing = reduction_ || goes_whole(count) ? 0 : processes() - 1;
  all.summed.assign(processes(), false);
  return all;
}

/// Where the mean is put together. Not there before the first part of it is: until then, the size of the bucket may be
/// no more than what another process says that it is.
tensor_buffer& allreduce_group_state::sum_of(collection& all) {
  if (all.sum.data() == nullptr) all.sum = tensor_buffer(all.count, 1);
  return all.sum;
}

caf::error allreduce_group_state::check(const header& head, std::uint32_t rank, std::uint32_t bucket,
                                        bool local) const {
  if (head.run != run_)
    return make_failure(errc::wrong_context, fmt::format("a bucket of run {}, this is run {}", head.run, run_));
  if (rank >= trainers())
    return make_failure(errc::bad_input, fmt::format("a bucket of rank {}, the group has {}", rank, trainers()));
  if (is_local(rank) != local)
    return make_failure(errc::bad_input,
                        fmt::format("a bucket of rank {} from {}", rank, local ? "here" : "another process"));
  if (!local && !may_come_from(layout_.process_of_rank[rank]))
    return make_failure(errc::bad_input, fmt::format("a bucket of rank {} from a process without that rank", rank));
  if (auto error = check_under_way({head.step, bucket})) return error;
  const auto known = open_.find({head.step, bucket});
  if (known != open_.end() && known->second.ranks[rank].arrived)
    return make_failure(errc::wrong_context, fmt::format("bucket {} of rank {} twice", bucket, rank));
  return {};
}

/// Whether the message at hand is that process's.
bool allreduce_group_state::may_come_from(std::uint32_t process) const {
  return layout_.senders.empty() || layout_.senders[process] == self_->current_sender();
}

/// Every rank has all means of a step before it comes to the next. So there are no more than two steps with buckets
/// under way, and what is over does not come again: whoever could say otherwise could fill this process's memory.
caf::error allreduce_group_state::check_under_way(const key& which) const {
  const auto& [at, bucket] = which;
  if (bucket >= buckets_max)
    return make_failure(errc::bad_input, fmt::format("bucket {}, there are at most {}", bucket, buckets_max));
  if (at < over_step_ || (at == over_step_ && over_[bucket]))
    return make_failure(errc::wrong_context, fmt::format("bucket {} is over", bucket));
  if (open_.empty()) return {};
  const std::uint64_t oldest = open_.begin()->first.first;
  const std::uint64_t newest = open_.rbegin()->first.first;
  if (oldest == newest || at == oldest || at == newest) return {};
  return make_failure(errc::wrong_context,
                      fmt::format("bucket {} while those of steps {} and {} are under way, at most two steps can be",
                                  bucket, oldest, newest));
}

caf::error allreduce_group_state::check_count(const collection& all, std::uint32_t rank, std::uint32_t bucket,
                                              std::uint64_t count) {
  if (all.count == count) return {};
  const auto other = std::ranges::find(all.ranks, true, &share_of_rank::arrived) - all.ranks.begin();
  return make_failure(errc::shape_mismatch, fmt::format("bucket {}: rank {} sent {} bytes, rank {} sent {}", bucket,
                                                        rank, count * sizeof(float), other, all.count * sizeof(float)));
}

caf::result<reduced> allreduce_group_state::handle(reduce& share) {
  if (auto error = check(share.head, share.rank, share.bucket, true)) return failure_of(name, share.head.step, error);
  if (share.grad.type != dtype::f32 || !share.grad.consistent())
    return failure_of(
        name, share.head.step,
        make_failure(errc::shape_mismatch, fmt::format("bucket {} of rank {} is not a float32 tensor of its shape",
                                                       share.bucket, share.rank)));
  if ((share.grad.bytes.device() != nullptr) != (reduction_ != nullptr))
    return failure_of(name, share.head.step,
                      make_failure(errc::wrong_context, fmt::format("bucket {} of rank {} is not where this group adds "
                                                                    "up",
                                                                    share.bucket, share.rank)));
  if (reduction_ && processes() > 1) introduce_devices();
  const std::uint64_t count = share.grad.rows * share.grad.cols;
  const key which(share.head.step, share.bucket);
  collection& all = open(which, count);
  if (auto error = check_count(all, share.rank, share.bucket, count)) return failure_of(name, share.head.step, error);
  if (processes() > 1) send_to_others(share);
  note_launch(share.head, share.rank, all);
  share_of_rank& mine = all.ranks[share.rank];
  mine = {true, share.head, share.batches, share.stop, std::move(share.grad), self_->make_response_promise<reduced>()};
  auto promise = mine.promise;
  arrived(which, all);
  return promise;
}

void allreduce_group_state::send_to_others(const reduce& share) {
  const std::uint64_t count = share.grad.rows * share.grad.cols;
  for (std::uint32_t process = 0; process < processes(); ++process) {
    if (process == layout_.me) continue;
    const slice part = slice_of(process, count);
    tensor grad;
    if (share.batches > 0 && !reduction_)
      grad = {dtype::f32, part.size, 1, share.grad.bytes.part(part.first * sizeof(float), part.size * sizeof(float))};
    self_->send(layout_.groups[process], bucket_share{.head = trace.next(share.head.step, id_of(share.head)),
                                                      .rank = share.rank,
                                                      .bucket = share.bucket,
                                                      .batches = share.batches,
                                                      .stop = share.stop,
                                                      .first = part.first,
                                                      .count = count,
                                                      .grad = std::move(grad)});
  }
}

/// A share has no answer, so what is wrong with it ends this group, and by that the run.
caf::result<void> allreduce_group_state::refuse(std::uint64_t at_step, const caf::error& cause) {
  self_->quit(failure_of(name, at_step, cause));
  return {};
}

caf::result<void> allreduce_group_state::handle(bucket_share& share) {
  if (auto error = check(share.head, share.rank, share.bucket, false)) return refuse(share.head.step, error);
  if (reduction_ && share.grad.rows > 0)
    return refuse(share.head.step,
                  make_failure(errc::bad_input,
                               fmt::format("trainer {} computes on the processor, others on CUDA devices; give all of "
                                           "them the same --device",
                                           share.rank)));
  const key which(share.head.step, share.bucket);
  const slice mine = slice_of(layout_.me, share.count);
  const std::uint64_t expected = share.batches > 0 ? mine.size : 0;
  if (share.count > blob::max_bytes / sizeof(float) || share.first != mine.first || share.grad.type != dtype::f32 ||
      !share.grad.consistent() || share.grad.rows * share.grad.cols != expected)
    return refuse(share.head.step,
                  make_failure(errc::shape_mismatch,
                               fmt::format("bucket {} of rank {}: {} numbers from {} on of {}, expected {} from {} on",
                                           share.bucket, share.rank, share.grad.rows * share.grad.cols, share.first,
                                           share.count, expected, mine.first)));
  collection& all = open(which, share.count);
  if (auto error = check_count(all, share.rank, share.bucket, share.count)) return refuse(share.head.step, error);
  note_launch(share.head, share.rank, all);
  all.ranks[share.rank] = {true, share.head, share.batches, share.stop, std::move(share.grad), {}};
  arrived(which, all);
  return {};
}

void allreduce_group_state::note_launch(const header& share, std::uint32_t rank, collection& all) {
  trace::record launch;
  launch.begin = trace.latest();
  launch.id = id_of(share);
  launch.cause = all.sequence;
  launch.step48_aux16 = trace::record::pack(share.step, rank);
  trace.note(trace::kind::collective_launch, launch);
}

void allreduce_group_state::arrived(const key& which, collection& all) {
  if (++all.arrived < trainers()) return;
  all.started = trace.latest();
  if (reduction_) {
    ready_.push_back(which);
    return launch_ready();
  }
  sum(which, all);
  if (all.sums_missing == 0) finish_sum(which, all);
}

/// Sums up the slice that is this process's.
void allreduce_group_state::sum(const key& which, collection& all) {
  const actor_trace::range working(trace, trace::range_name::sum, which.first, all.started);
  const slice mine = slice_of(layout_.me, all.count);
  inputs_.clear();
  std::uint64_t batches = 0;
  for (std::uint32_t rank = 0; rank < trainers(); ++rank) {
    const share_of_rank& share = all.ranks[rank];
    if (share.batches == 0) continue;
    inputs_.push_back(share.grad.as<float>().data() + (is_local(rank) ? mine.first : 0));
    batches += share.batches;
  }
  float* to = sum_of(all).data() + mine.first;
  if (inputs_.empty())
    std::fill_n(to, mine.size, 0.0F);
  else
    kernels::sum_in_rank_order(inputs_, mine.size, 1.0F / static_cast<float>(batches), to);
  if (goes_whole(all.count)) return;
  const tensor part = all.sum.part(mine.first, mine.size);
  for (std::uint32_t process = 0; process < processes(); ++process)
    if (process != layout_.me)
      self_->send(layout_.groups[process],
                  bucket_sum{trace.next(which.first, id_of(all.ranks[0].head)), which.second, mine.first, part});
}

caf::result<void> allreduce_group_state::handle(bucket_sum& part) {
  const key which(part.head.step, part.bucket);
  const auto known = open_.find(which);
  if (part.head.run != run_ || known == open_.end())
    return refuse(part.head.step,
                  make_failure(errc::wrong_context, fmt::format("a sum of bucket {}, which is not open", part.bucket)));
  collection& all = known->second;
  const auto numbers = part.grad.as<float>();
  for (std::uint32_t process = 0; process < processes(); ++process) {
    const slice theirs = slice_of(process, all.count);
    if (process == layout_.me || reduction_ || goes_whole(all.count) || all.summed[process] || !may_come_from(process))
      continue;
    if (part.grad.type != dtype::f32 || part.first != theirs.first || numbers.size() != theirs.size) continue;
    all.summed[process] = true;
    std::copy(numbers.begin(), numbers.end(), sum_of(all).data() + part.first);
    if (--all.sums_missing == 0 && all.arrived == trainers()) finish_sum(which, all);
    return {};
  }
  return refuse(part.head.step,
                make_failure(errc::shape_mismatch, fmt::format("a sum of bucket {}, {} numbers from {} on, that no "
                                                               "other process owes",
                                                               part.bucket, numbers.size(), part.first)));
}

void allreduce_group_state::finish_sum(const key& which, collection& all) {
  const tensor mean = std::move(all.sum).freeze();
  finish(which, all, [&mean](std::uint32_t) -> const tensor& { return mean; });
}

/// A collective is over: notes it, and keeps its memory.
void allreduce_group_state::close(const key& which, collection& all) {
  if (trace.is_on()) {
    trace::record done;
    done.sent = all.launched;
    done.begin = all.started;
    done.id = all.sequence;
    done.busy48_type16 = trace::record::pack(trace.latest() - all.started, 0);
    done.step48_aux16 = trace::record::pack(which.first, which.second);
    trace.note(trace::kind::collective, done, all.count * sizeof(float));
  }
  for (share_of_rank& rank : all.ranks) rank = {};
  all.arrived = 0;
  if (which.first > over_step_) over_.reset();
  over_step_ = which.first;
  over_.set(which.second);
  spare_.push_back(std::move(all));
  open_.erase(which);
}

/// A timer of its own: one for each bucket would wake another thread each time.
void allreduce_group_state::look_for_late_ranks() {
  if (reduction_) look_for_late_devices();
  for (const auto& [which, all] : open_) {
    if (std::chrono::steady_clock::now() - all.begin < layout_.patience) continue;
    std::vector<std::uint32_t> missing;
    for (std::uint32_t rank = 0; rank < trainers(); ++rank)
      if (!all.ranks[rank].arrived) missing.push_back(rank);
    refuse(
        which.first,
        make_failure(errc::timeout,
                     fmt::format("bucket {} lacks the {} for {} s; --request-timeout allows more", which.second,
                                 missing.empty() ? reduction_ ? "connection of the devices" : "sums of other processes"
                                                 : fmt::format("share of trainer {}", fmt::join(missing, ", ")),
                                 static_cast<double>(layout_.patience.count()) / 1000)));
    return;
  }
  constexpr int looks_per_patience = 10;
  self_->run_delayed(layout_.patience / looks_per_patience, [this] { look_for_late_ranks(); });
}

caf::result<actor_status> allreduce_group_state::handle(const actor_query& query) {
  actor_status now{trace.next(step, id_of(query.head)), name, open_.empty() ? "idle" : "waiting", step, {}, {}};
  for (const auto& [which, all] : open_) {
    const std::string what = fmt::format("bucket {}", which.second);
    for (std::uint32_t rank = 0; rank < trainers(); ++rank) {
      const bool owes_sum = all.arrived == trainers() && !is_local(rank) && !all.summed[layout_.process_of_rank[rank]];
      if (!all.ranks[rank].arrived || owes_sum)
        now.waits.push_back({name, what, which.first, fmt::format("trainer {}", rank)});
    }
  }
  return now;
}

allreduce_actor::behavior_type allreduce_group(allreduce_group_state::pointer self, std::uint64_t run,
                                               group_layout layout) {
  self->state.start(run, std::move(layout));
  fail_on_exceptions(self);
  drop_unexpected(self);
  return {
      recorded<reduce>(self),        recorded<bucket_share>(self), recorded<bucket_sum>(self),
      recorded<group_devices>(self), recorded<actor_query>(self),
  };
}

}  // namespace troupe
