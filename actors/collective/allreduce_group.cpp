#include "actors/collective/allreduce_group.hpp"

#include <algorithm>

#include "actors/collective/device_collective.hpp"
#include "actors/common/failure.hpp"
#include "actors/common/traced_system.hpp"

namespace troupe::actors {
namespace {

static_assert(ordered_sum::count_max == msg::blob::max_bytes / sizeof(float));

caf::error error_of(std::uint32_t bucket, const refusal& refused) {
  const errc code = refused.what == refusal::cause::misfit ? errc::shape_mismatch : errc::wrong_context;
  return make_failure(code, "bucket {}: {}", bucket, refused.why);
}

/// Returns a tensor's numbers; none if the tensor is not a consistent float32 tensor.
std::span<const float> floats_of(const msg::tensor& grad) {
  return grad.type == dtype::f32 && grad.consistent() ? grad.as<float>() : std::span<const float>();
}

/// Sums on the thread of the group's actor.
class host_collective final : public collective {
 public:
  explicit host_collective(allreduce_group_state& group) : group_(group) {}

  share_exchange exchange_of(std::uint64_t count) const override {
    return fastest_exchange(group_.ranks().processes, count, sizeof(float), true);
  }
  bool can_read(const msg::tensor& grad) const override { return grad.bytes.device() == nullptr; }
  caf::error check(const msg::bucket_share& /*share*/) const override { return {}; }

  caf::error introduce(const msg::group_devices& theirs) override {
    return make_failure(errc::bad_input,
                        "{} on CUDA devices and {} on the processor do not mix; give all of them the same --device",
                        trainers_of(group_.ranks(), theirs.process), trainers_of(group_.ranks(), group_.ranks().me));
  }

  bool sum(const bucket_id& id, group_bucket& all) override {
    const actor_trace::range working(group_.trace, trace::range_name::sum, id.step, all.started);
    float* const mine = all.buffer() + all.sum.slice_of(group_.ranks().me).first;
    const float scale = 1.0F / static_cast<float>(all.sum.batches());
    all.sum.sum(sum_of_floats(scale), reinterpret_cast<std::byte*>(mine));
    return true;
  }

  const char* awaited() const override { return "sums of other processes"; }

 private:
  allreduce_group_state& group_;
};

}  // namespace

void allreduce_group_state::start(std::uint64_t run, group_layout layout) {
  run_ = run;
  const std::size_t processes = std::max<std::size_t>(layout.groups.size(), 1);
  ranks_ = {std::move(layout.process_of_rank), static_cast<std::uint32_t>(processes), layout.me};
  groups_ = std::move(layout.groups);
  senders_ = std::move(layout.senders);
  timeout_ = layout.timeout;
  const std::uint32_t number = layout.number();
  numbers_ = std::move(layout.numbers);
  part_ = layout.part;
  parts_ = layout.parts;
  // When there are several groups, each is named after its first rank in this process.
  const auto first = std::ranges::find(ranks_.process_of_rank, ranks_.me) - ranks_.process_of_rank.begin();
  trace.start(self_, self_->system(), run, number,
              number == group_number ? name : fmt::format("{} {}", name, member_of(static_cast<std::uint32_t>(first))));
  if (const compute_devices devices = devices_of(self_->system()); devices.trainers) {
    if (timeout_.count() == 0) timeout_ = device_timeout;
    collective_ = std::make_unique<device_collective>(*this, devices);
  } else {
    collective_ = std::make_unique<host_collective>(*this);
  }
  if (timeout_.count() > 0) look_for_late_ranks();
}

// -- shares -----------------------------------------------------------------------------------------------------------

caf::error allreduce_group_state::check(const msg::header& head, std::uint32_t rank, std::uint32_t bucket,
                                        bool local) const {
  if (head.run != run_) return make_failure(errc::wrong_context, "a bucket of run {}, this is run {}", head.run, run_);
  if (rank >= ranks_.ranks())
    return make_failure(errc::bad_input, "a bucket of rank {}, the group has {}", rank, ranks_.ranks());
  if (ranks_.is_local(rank) != local)
    return make_failure(errc::bad_input, "a bucket of rank {} from {}", rank, local ? "here" : "another process");
  if (!local && !may_come_from(ranks_.process_of_rank[rank]))
    return make_failure(errc::bad_input, "a bucket of rank {} from a process without that rank", rank);
  return buckets_.check({head.step, bucket});
}

/// Returns whether the current message may come from `process`. True if senders are not checked.
bool allreduce_group_state::may_come_from(std::uint32_t process) const {
  return senders_.empty() || senders_[process] == self_->current_sender();
}

/// Returns the process that sent the current message; none if senders are not checked. For an unknown sender, returns
/// the number of processes.
std::optional<std::uint32_t> allreduce_group_state::process_of_sender() const {
  if (senders_.empty()) return {};
  const auto known = std::ranges::find_if(senders_, [&](const auto& one) { return one == self_->current_sender(); });
  return static_cast<std::uint32_t>(known - senders_.begin());
}

group_bucket& allreduce_group_state::bucket(const bucket_id& id) {
  group_bucket* const known = buckets_.find(id);
  TROUPE_ASSERT(known != nullptr);
  return *known;
}

group_bucket& allreduce_group_state::find_or_open(const bucket_id& id, std::uint64_t count) {
  step = std::max(step, id.step);
  if (group_bucket* const known = buckets_.find(id)) return *known;
  group_bucket& all = buckets_.open(id);
  all.sum.begin(ranks_, {collective_->exchange_of(count), count, sizeof(float), id.bucket % ranks_.processes});
  all.ranks.resize(ranks_.ranks());
  all.stop = all.save = false;
  all.sequence = ++collectives_;
  all.launched = trace.latest();
  if (timeout_.count() > 0) all.begin = now();
  return all;
}

caf::result<msg::reduced> allreduce_group_state::handle(msg::reduce& share) {
  const bucket_id id{share.head.step, share.bucket};
  caf::error error = check(share.head, share.rank, share.bucket, true);
  if (!error && (share.grad.type != dtype::f32 || !share.grad.consistent()))
    error = make_failure(errc::shape_mismatch, "bucket {} of rank {} is not a float32 tensor of its shape",
                         share.bucket, share.rank);
  if (!error && !collective_->can_read(share.grad))
    error = make_failure(errc::wrong_context, "bucket {} of rank {} is not where this group adds up", share.bucket,
                         share.rank);
  if (error) return failure_of(name, id.step, error);
  collective_->join();
  const std::span<const float> numbers = share.grad.as<float>();
  group_bucket& all = find_or_open(id, numbers.size());
  if (const auto refused = all.sum.add_share({share.rank, share.batches, numbers.size(), 0, std::as_bytes(numbers)}))
    return failure_of(name, id.step, error_of(id.bucket, *refused));
  send_slices(share, all.sum);
  auto promise = self_->make_response_promise<msg::reduced>();
  take_part(id, all, share, promise);
  return promise;
}

caf::result<void> allreduce_group_state::handle(msg::bucket_share& share) {
  const bucket_id id{share.head.step, share.bucket};
  if (auto error = check(share.head, share.rank, share.bucket, false)) return refuse(id.step, error);
  if (auto error = collective_->check(share)) return refuse(id.step, error);
  group_bucket& all = find_or_open(id, share.count);
  if (const auto refused = all.sum.add_share(
          {share.rank, share.batches, share.count, share.first, std::as_bytes(floats_of(share.grad))}))
    return refuse(id.step, error_of(id.bucket, *refused));
  take_part(id, all, share, {});
  return {};
}

caf::result<void> allreduce_group_state::handle(msg::bucket_sum& part) {
  const bucket_id id{part.head.step, part.bucket};
  group_bucket* const all = buckets_.find(id);
  if (part.head.run != run_ || all == nullptr)
    return refuse(id.step, make_failure(errc::wrong_context, "a sum of bucket {}, which is not open", part.bucket));
  const std::span<const float> numbers = floats_of(part.grad);
  if (const auto refused = all->sum.add_sum(process_of_sender(), {part.first, numbers.size()}))
    return refuse(id.step, error_of(id.bucket, *refused));
  std::ranges::copy(numbers, all->buffer() + part.first);
  all->stop = all->stop || part.stop;
  all->save = all->save || part.save;
  follow(id, *all);
  return {};
}

caf::result<void> allreduce_group_state::handle(const msg::group_devices& theirs) {
  if (theirs.head.run != run_ || theirs.process >= ranks_.processes || theirs.process == ranks_.me ||
      !may_come_from(theirs.process) || theirs.id.size() != sizeof(kernels::communicator_id))
    return refuse(theirs.head.step,
                  make_failure(errc::wrong_context, "devices of process {}, which does not take part", theirs.process));
  if (auto error = collective_->introduce(theirs)) return refuse(theirs.head.step, error);
  return {};
}

/// An invalid message that has no answer ends this group.
caf::result<void> allreduce_group_state::refuse(std::uint64_t at_step, const caf::error& cause) {
  self_->quit(failure_of(name, at_step, cause));
  return {};
}

// -- actions ----------------------------------------------------------------------------------------------------------

/// Keeps a share, which must fit its bucket.
void allreduce_group_state::take_part(const bucket_id& id, group_bucket& all, auto& share,
                                      caf::typed_response_promise<msg::reduced> promise) {
  note_launch(share.head, share.rank, all);
  all.ranks[share.rank] = {share.head, std::move(share.grad), std::move(promise)};
  all.stop = all.stop || share.stop;
  all.save = all.save || share.save;
  follow(id, all);
}

/// Advances a bucket after a share or a sum has come.
void allreduce_group_state::follow(const bucket_id& id, group_bucket& all) {
  if (all.sum.now() == ordered_sum::state::complete) {
    all.started = trace.latest();
    if (!collective_->sum(id, all)) return;
    if (all.sum.sends_sum(ranks_.me)) send_sum(id, all);
  }
  if (all.sum.now() != ordered_sum::state::reduced) return;
  const msg::tensor mean = all.part({0, all.sum.count()});
  finish(id, all, [&mean](std::uint32_t) -> const msg::tensor& { return mean; });
}

void allreduce_group_state::send_slices(const msg::reduce& share, const ordered_sum& sum) {
  for (std::uint32_t process = 0; process < ranks_.processes; ++process) {
    if (process == ranks_.me || !sum.takes_shares(process)) continue;
    const sum_slice part = sum.slice_of(process);
    msg::tensor grad;
    if (share.batches > 0 && part.size > 0)
      grad = {dtype::f32, part.size, 1, share.grad.bytes.part(part.first * sizeof(float), part.size * sizeof(float))};
    self_->send(groups_[process],
                msg::bucket_share{trace.next(share.head.step, msg::id_of(share.head)), share.rank, share.bucket,
                                  share.batches, share.stop, part.first, sum.count(), std::move(grad), share.save});
  }
}

void allreduce_group_state::send_sum(const bucket_id& id, const group_bucket& all) {
  const sum_slice mine = all.sum.slice_of(ranks_.me);
  const msg::tensor part = all.part(mine);
  for (std::uint32_t process = 0; process < ranks_.processes; ++process)
    if (process != ranks_.me)
      self_->send(groups_[process], msg::bucket_sum{trace.next(id.step, msg::id_of(all.ranks[0].head)), id.bucket,
                                                    mine.first, all.stop, part, all.save});
}

void allreduce_group_state::note_launch(const msg::header& share, std::uint32_t rank, const group_bucket& all) {
  const auto root = all.sum.root();
  const std::uint64_t summed_by = root ? number_of(*root) : 0;
  trace.note(trace::kind::collective_launch, {.begin = trace.latest(),
                                              .id = msg::id_of(share),
                                              .cause = all.sequence,
                                              .busy48_type16 = trace::record::pack(0, summed_by),
                                              .step48_aux16 = trace::record::pack(share.step, member_of(rank))});
}

/// Records a finished collective, and keeps its memory for later ones.
void allreduce_group_state::close(const bucket_id& id, group_bucket& all) {
  if (trace.is_on())
    trace.note(trace::kind::collective,
               {.begin = all.started,
                .sent = all.launched,
                .id = all.sequence,
                .busy48_type16 = trace::record::pack(trace.latest() - all.started, 0),
                .step48_aux16 = trace::record::pack(id.step, id.bucket)},
               all.sum.count() * sizeof(float));
  for (group_bucket::participant& rank : all.ranks) rank = {};
  all.mean.reset();
  all.sum.end();
  buckets_.close(id);
}

// -- deadlines and status ---------------------------------------------------------------------------------------------

/// One timer for all buckets: a timer per bucket would wake another thread each time. A group that lacks another
/// group's sum waits a little longer, since that group knows which rank's share is missing.
void allreduce_group_state::look_for_late_ranks() {
  collective_->look_for_late();
  constexpr int looks_per_timeout = 10;
  for (const auto& [id, all] : buckets_.under_way()) {
    std::vector<std::uint32_t> shares, sums;  // ranks in the run whose share or sum is missing
    for (std::uint32_t rank = 0; rank < ranks_.ranks(); ++rank) {
      if (all.sum.lacks_share(rank)) shares.push_back(member_of(rank));
      if (all.sum.lacks_sum(rank)) sums.push_back(member_of(rank));
    }
    const auto allowed = shares.empty() ? timeout_ + 2 * timeout_ / looks_per_timeout : timeout_;
    if (now() - all.begin < allowed) continue;
    std::string what = collective_->awaited();
    if (!shares.empty())
      what = fmt::format("share of trainer {}", fmt::join(shares, ", "));
    else if (all.sum.now() == ordered_sum::state::exchanging)
      what = fmt::format("sum of the process of trainer {}", fmt::join(sums, ", "));
    refuse(id.step, make_failure(errc::timeout, "bucket {} lacks the {} for {} s; --request-timeout allows more",
                                 id.bucket, what, static_cast<double>(allowed.count()) / 1000));
    return;
  }
  const auto next = std::min(timeout_ / looks_per_timeout, collective_->look_interval());
  self_->run_delayed(next, [this] { look_for_late_ranks(); });
}

caf::result<msg::actor_status> allreduce_group_state::handle(const msg::actor_query& query) {
  const bool is_idle = buckets_.under_way().empty();
  msg::actor_status now{trace.next(step, msg::id_of(query.head)), name, is_idle ? "idle" : "waiting", step, {}, {}};
  for (const auto& [id, all] : buckets_.under_way()) {
    const std::string what = fmt::format("bucket {}", id.bucket);
    for (std::uint32_t rank = 0; rank < ranks_.ranks(); ++rank)
      if (all.sum.lacks_share(rank) || all.sum.lacks_sum(rank))
        now.waits.push_back({name, what, id.step, fmt::format("trainer {}", member_of(rank))});
  }
  return now;
}

msg::allreduce_actor::behavior_type allreduce_group(allreduce_group_state::pointer self, std::uint64_t run,
                                                    group_layout layout) {
  fail_on_exceptions(self);  // before the devices are opened
  self->state.start(run, std::move(layout));
  drop_unexpected(self);
  return {
      recorded<msg::reduce>(self),        recorded<msg::bucket_share>(self), recorded<msg::bucket_sum>(self),
      recorded<msg::group_devices>(self), recorded<msg::actor_query>(self),
  };
}

}  // namespace troupe::actors
