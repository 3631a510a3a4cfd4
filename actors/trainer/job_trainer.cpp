#include "actors/trainer/job_trainer.hpp"

#include <chrono>

#include "actors/common/failure.hpp"
#include "actors/trainer/job_failure.hpp"
#include "actors/trainer/pipeline_worker.hpp"
#include "actors/trainer/training_loop.hpp"
#include "model/stages.hpp"

namespace troupe::actors {

// -- the order to train ---------------------------------------------------------

void job_trainer::begin(msg::train& order) {
  caf::error error = open(order);
  if (!error) error = assigned_->part() == 0 ? lead() : follow();
  if (error) return fail_job(actor_, 0, error);
  if (is_to_stop_) part_->stop();
  part_->begin(order);
  for (const auto& one : std::exchange(early_, {})) one();
}

/// Opens the data, which must equal the master's.
caf::error job_trainer::open(const msg::train& order) {
  auto job = model::shared_job(order.job);
  if (!job) return make_failure(errc::bad_input, job.error().message);
  const msg::blob row_index = order.row_index.empty() ? msg::blob() : order.row_index.front();
  auto data = model::open_dataset(**job, row_index.as<std::uint64_t>());
  if (!data) return make_failure(errc::bad_input, data.error().message);
  if ((*data)->digest() != order.data_digest)
    return make_failure(errc::bad_input,
                        "--data {}: the rows here are not the master's: their digest is {} here and {} there",
                        (*job)->data, (*data)->digest(), order.data_digest);
  const caf::timespan limit = std::chrono::milliseconds(order.request_timeout_ms);
  assigned_ = {.job = *job,
               .data = std::move(*data),
               .rank = actor_.rank,
               .replica = actor_.rank / (*job)->parts(),
               .servers = actor_.servers,
               .group = order.group,
               .group_number = order.group_number,
               .reports = order.reports,
               .remote = order.remote,
               .timeout = order.remote ? limit : caf::timespan(caf::infinite)};
  return {};
}

caf::error job_trainer::lead() {
  std::vector<msg::part_actor> others;
  for (std::uint32_t part = 1; part < assigned_->job->parts(); ++part) {
    others.push_back(part_at(actor_.rank + part));
    if (!others.back())
      return make_failure(errc::wrong_context, "trainer {} of the {} that have parts of the network is not in this run",
                          actor_.rank + part, assigned_->job->parts());
  }
  part_ = std::make_unique<training_loop>(actor_, *assigned_, std::move(others));
  return {};
}

caf::error job_trainer::follow() {
  const std::uint32_t rank = actor_.rank;
  const model::stage_place at = model::place_of_part(*assigned_->job, assigned_->part());
  pipeline_links::neighbours beside{.before = part_at(rank - at.ranks_from_input()),
                                    .behind = at.is_last() ? msg::part_actor() : part_at(rank + at.slice.slices),
                                    .slices = {}};
  bool has_all = beside.before && (at.is_last() || beside.behind);
  beside.slices.reserve(at.slice.slices - 1);
  for (std::uint32_t slice = 0; slice < at.slice.slices; ++slice) {
    if (slice == at.slice.slice) continue;
    beside.slices.push_back(part_at(rank - at.slice.slice + slice));
    has_all = has_all && beside.slices.back();
  }
  if (!has_all)
    return make_failure(errc::wrong_context, "the parts beside part {} of the network are not in this run", at.part());
  part_ = std::make_unique<pipeline_worker>(actor_, *assigned_, at, std::move(beside));
  return {};
}

// -- messages of other parts ------------------------------------------------------

/// Returns the actor of a rank of this replica; null if the run has no such rank.
msg::part_actor job_trainer::part_at(std::uint32_t rank) const {
  return rank < all_.of_rank.size() ? caf::actor_cast<msg::part_actor>(all_.of_rank[rank]) : msg::part_actor();
}

/// Returns whether the current message may come from that trainer. Only senders in other processes are checked.
bool job_trainer::comes_from(std::uint32_t rank) const {
  if (rank >= all_.senders.size()) return false;
  const caf::actor_addr& known = all_.senders[rank];
  return known == nullptr || known == actor_.self->current_sender();
}

/// Returns whether the current message may come from the leader of this replica. Before the order to train, the leader
/// is unknown, and messages are accepted up to a limit.
bool job_trainer::comes_from_leader() const {
  return assigned_ ? comes_from(assigned_->leader()) : early_.size() < model::micro_batches_max;
}

/// Keeps a message that comes before the order to train, since other trainers may be ahead. Returns false after that
/// order, or if too many are kept.
bool job_trainer::comes_early(std::function<void()> handle_it) {
  if (assigned_ || early_.size() >= model::micro_batches_max) return false;
  early_.push_back(std::move(handle_it));
  return true;
}

/// Has the part handle a message from trainer `from`.
template <class Message>
void job_trainer::pass(std::uint32_t from, Message&& message) {
  if (!part_ || !comes_from(from)) return refuse();
  part_->take(std::forward<Message>(message));
}

void job_trainer::take(msg::activation&& input) {
  if (comes_from(input.rank) && comes_early([this, input]() mutable { part_->take(std::move(input)); })) return;
  pass(input.rank, std::move(input));
}

void job_trainer::take(msg::partial_sum&& share) {
  if (comes_from(share.rank) && comes_early([this, share]() mutable { part_->take(std::move(share)); })) return;
  pass(share.rank, std::move(share));
}

void job_trainer::take(msg::activation_gradient&& grad) {
  if (!part_) return refuse();
  pass(actor_.rank + assigned_->job->tensor_parallel, std::move(grad));
}

void job_trainer::take(msg::part_outputs&& outputs) { pass(outputs.rank, std::move(outputs)); }

caf::error job_trainer::check_asker() const {
  return (assigned_ && !part_) || !comes_from_leader() ? refusal() : caf::error();
}

template <class Query, class Promise>
void job_trainer::pass_query(const Query& query, Promise promise) {
  if (part_) return part_->answer(query, std::move(promise));
  // Later, in a turn of its own: answering the query may also answer the order to train, which is still being handled.
  early_.push_back([this, query, promise] {
    run_in(caf::strong_actor_ptr(actor_.self->ctrl()), [this, query, promise] {
      const actor_trace::turn as_turn(actor_.trace, actor_.step);
      part_->answer(query, promise);
    });
  });
}

caf::result<msg::committed> job_trainer::answer(const msg::optimizer_step& order) {
  if (!part_ || !comes_from_leader()) return refusal();
  return part_->answer(order);
}

// -- the others' -------------------------------------------------------------------

void job_trainer::stop() {
  is_to_stop_ = true;
  if (part_) part_->stop();
}

void job_trainer::report(msg::actor_status& now) const {
  if (part_) part_->report(now);
}

msg::full_trainer_actor::behavior_type trainer(trainer_state::pointer self, std::uint64_t run, std::uint32_t rank,
                                               std::uint32_t servers) {
  return trainer_with(self, run, rank, servers,
                      [](trainer_context actor) { return std::make_unique<job_trainer>(std::move(actor)); });
}

made_trainer program_trainer(caf::actor_system& system, std::uint64_t run, std::uint32_t rank, std::uint32_t servers) {
  return spawn_trainer(system, run, rank, servers,
                       [](trainer_context actor) { return std::make_unique<job_trainer>(std::move(actor)); });
}

}  // namespace troupe::actors
