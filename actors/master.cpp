#include "actors/master.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "actors/actor_name.hpp"
#include "actors/allreduce_group.hpp"
#include "actors/embedding_bag_arguments.hpp"
#include "actors/replay.hpp"
#include "actors/traced_system.hpp"
#include "actors/trainer.hpp"
#include "actors/weights.hpp"
#include "model/placement.hpp"
#include "protocol/errors.hpp"
#include "protocol/messages.hpp"

namespace troupe {

void master_state::start(std::uint64_t run, run_observer observer, run_checkpoints checkpoints,
                         std::optional<node_rules> nodes) {
  run_ = run;
  observer_ = std::move(observer);
  checkpoints_ = std::move(checkpoints);
  rules_ = std::move(nodes);
  trace.start(self_, self_->system(), run, master_number, name);
  begin_ = clock::now();
  self_->set_down_handler([this](const caf::down_msg& down) { member_down(down); });
}

// -- a run, in order ----------------------------------------------------------

caf::result<run_result> master_state::handle(const run& order) {
  if (ordered_) return make_failure(errc::wrong_context, "a run is under way");
  promise_ = self_->make_response_promise<run_result>();
  if (auto error = set_up(order)) {
    promise_.deliver(error);
    return promise_;
  }
  ordered_ = true;
  admit_early();
  if (stop_early_)
    handle(stop{order.head});
  else
    member_joined();
  return promise_;
}

void master_state::begin() {
  running_ = true;
  save_beginning();
  if (rules_) return connect_nodes();
  group_ = self_->spawn(allreduce_group, run_, group_layout::one_process(job_.trainers));
  watch(group_.address(), "allreduce");
  make_tables();
}

caf::error master_state::set_up(const run& order) {
  auto parsed = parse_job(order.job);
  if (!parsed) return make_failure(errc::bad_input, parsed.error().message);
  job_ = std::move(*parsed);
  auto opened = open_dataset(job_);
  if (!opened) return make_failure(errc::bad_input, opened.error().message);
  data_ = std::move(*opened);
  if (!rules_)
    if (auto error = check_members()) return error;
  total_steps_ = total_steps(job_, *data_);
  cause_ = id_of(order.head);
  return_weights_ = order.return_weights;
  return restore_position();
}

caf::error master_state::check_members() const {
  if (servers_.size() != job_.servers || trainers_.size() != job_.trainers)
    return make_failure(errc::bad_input,
                        fmt::format("{} servers and {} trainers have joined, the job asks for {} and {}",
                                    servers_.size(), trainers_.size(), job_.servers, job_.trainers));
  if (servers_.empty() && !data_->spec().tables.empty())
    return make_failure(errc::bad_input, "--servers 0: the model has tables, so it needs at least 1");
  return {};
}

void master_state::make_tables() {
  phase_ = "making tables";
  const auto& specs = data_->spec().tables;
  tables_.resize(specs.size());
  if (specs.empty()) return start_training();
  const auto places = place_tables(specs, job_.servers);
  for (std::size_t t = 0; t < specs.size(); ++t) {
    const auto shards = static_cast<std::uint32_t>(places[t].size());
    tables_[t].resize(shards);
    for (std::uint32_t s = 0; s < shards; ++s)
      ask<module_ref>(
          servers_[places[t][s]],
          instantiate{.head = trace.next(0, cause_),
                      .spec = embedding_bag_spec(job_, specs[t], t),
                      .shard = s,
                      .shards = shards,
                      .trainers = job_.trainers,
                      .accumulate = job_.accumulate,
                      .staleness = job_.staleness,
                      .steps_done = steps_done_},
          [this, t, s](module_ref& made) { tables_[t][s] = std::move(made); }, &master_state::load_tables);
  }
}

/// A checkpoint or a reference run brings its own weights.
void master_state::load_tables() {
  if (steps_done_ > 0) return restore_tables();
  const auto given = data_->start();
  if (!given) return start_training();
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const std::size_t dim = data_->spec().tables[t].dim;
    for (const module_ref& shard : tables_[t]) {
      std::vector<float> part;
      for (std::size_t row = shard.shard; row * dim < given->tables[t].size(); row += shard.shards) {
        const float* from = given->tables[t].data() + row * dim;
        part.insert(part.end(), from, from + dim);
      }
      const std::uint64_t rows_here = part.size() / dim;
      ask<committed>(
          shard.server,
          load_state_dict{
              trace.next(0, cause_), shard.module, {{"weight", tensor::own(rows_here, dim, std::move(part))}}},
          [](committed&) {}, &master_state::start_training);
    }
  }
}

void master_state::start_training() {
  phase_ = "training";
  const std::chrono::duration<double> since_begin = clock::now() - begin_;
  setup_seconds_ = since_begin.count();
  trained_.resize(trainers_.size());
  const auto settings = to_settings(job_);
  // What another run did between processes is done here as it was done there.
  const replay* again = replay_of(self_->system());
  const bool is_remote = rules_ || (again != nullptr && again->is_remote());
  for (std::uint32_t rank = 0; rank < trainers_.size(); ++rank)
    ask<trained>(
        trainers_[rank],
        train{.head = trace.next(0, cause_),
              .rank = rank,
              .trainers = job_.trainers,
              .job = settings,
              .tables = tables_for(rank),
              .group = group_for(rank),
              .reports = self_,
              .from = positions_[rank],
              .saves = checkpoints_.store != nullptr,
              .checkpoint_every = checkpoints_.every,
              .data_digest = data_->digest(),
              .remote = is_remote,
              .request_timeout_ms = rules_ ? static_cast<std::uint64_t>(rules_->request_timeout.count()) : 0,
              .group_number = group_number_for(rank)},
        [this, rank](trained& result) { trained_[rank] = std::move(result); }, &master_state::training_done);
}

void master_state::training_done() {
  phase_ = "collecting weights";
  for (std::uint32_t rank = 1; rank < trained_.size(); ++rank)
    if (trained_[rank].dense_digest != trained_[0].dense_digest)
      return fail(failure_of(
          name, trained_[rank].steps,
          make_failure(errc::wrong_context, fmt::format("the dense weights of trainers 0 and {} differ", rank))));
  collect_weights();
}

void master_state::collect_weights() {
  std::vector<weights_digest::table> digested;
  table_weights_.resize(tables_.size());
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    digested.push_back(
        {static_cast<std::uint64_t>(data_->spec().tables[t].rows), static_cast<std::uint32_t>(tables_[t].size())});
    table_weights_[t].resize(tables_[t].size());
    if (!return_weights_) continue;
    for (const module_ref& shard : tables_[t])
      ask<module_state>(
          shard.server, state_dict{trace.next(trained_[0].steps, cause_), shard.module},
          [this, t, s = shard.shard](module_state& state) { table_weights_[t][s] = state.entries.at(0).second; },
          &master_state::deliver);
  }
  digest_ = weights_digest(std::move(digested));
  ask_for_digests();
  if (pending_ == 0) deliver();
}

/// Asks for as many further digests of rows as may be under way.
void master_state::ask_for_digests() {
  while (const auto next = digest_.next()) {
    const module_ref& shard = tables_[next->table][next->shard];
    ask<tensor>(
        shard.server, row_digests{trace.next(trained_[0].steps, cause_), shard.module, next->first, next->rows},
        [this, part = *next, rank = shard.rank](tensor& digests) {
          if (!digest_.add(part, std::move(digests)))
            return fail(failure_of(
                name, trained_[0].steps,
                make_failure(errc::shape_mismatch, fmt::format("table {}: server {} did not answer with {} row digests",
                                                               part.table, rank, part.rows))));
          ask_for_digests();
        },
        &master_state::deliver);
  }
}

void master_state::deliver() {
  if (!running_) return;
  run_result result;
  result.head = trace.next(0, cause_);
  result.steps = trained_[0].steps;
  result.samples = summary_.samples;
  result.setup_seconds = setup_seconds_;
  result.seconds = summary_.seconds;
  result.loss = summary_.figures.loss;
  result.auc = summary_.figures.auc;
  result.accuracy = summary_.figures.accuracy;
  result.log_loss = summary_.figures.log_loss;
  result.calibration = summary_.figures.calibration;
  result.test_loss = summary_.figures.test_loss;
  result.rmse = summary_.figures.rmse;
  result.stopped = trained_[0].stopped;
  result.skipped_steps = summary_.skipped_steps;
  result.staleness_max = summary_.staleness_max;
  if (lookups_ > 0) result.staleness_mean = static_cast<double>(staleness_sum_) / static_cast<double>(lookups_);
  result.weights_digest = digest_.text(trained_[0].dense_digest);
  if (return_weights_) {
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      const table_spec& spec = data_->spec().tables[t];
      result.tables.push_back(merge_shards(table_weights_[t], static_cast<std::uint64_t>(spec.rows), spec.dim));
    }
    result.dense = trained_[0].dense;
  }
  deliver(std::move(result));
}

void master_state::deliver(run_result&& result) {
  running_ = false;
  promise_.deliver(std::move(result));
  tell_nodes(true, {});
  end_members();
}

// -- reports ------------------------------------------------------------------

void master_state::handle(const stop& order) {
  if (!ordered_ && rules_) stop_early_ = true;
  if (ordered_ && !running_ && promise_.pending()) {
    run_result nothing;
    nothing.head = trace.next(0, id_of(order.head));
    nothing.stopped = true;
    nothing.loss = std::numeric_limits<double>::quiet_NaN();  // there was none
    return deliver(std::move(nothing));
  }
  for (const trainer_actor& t : trainers_) self_->send(t, stop{trace.next(step, id_of(order.head))});
}

void master_state::handle(const progress& report) {
  step = std::max(step, report.head.step);
  const std::uint64_t steps_of_epoch = (report.head.step - 1) % data_->steps_per_epoch() + 1;
  last_progress_ = {static_cast<double>(report.samples) * job_.trainers / report.seconds,
                    static_cast<double>(steps_of_epoch) / report.seconds, clock::now()};
  trace.metric(trace::metric_name::loss, report.head.step, report.loss_sum / static_cast<double>(report.loss_samples));
  trace.metric(trace::metric_name::samples_per_s, report.head.step, last_progress_->samples_per_s);
  if (!observer_.on_progress) return;
  run_progress now;
  now.step = report.head.step;
  now.total_steps = total_steps_;
  now.loss = report.loss_sum / static_cast<double>(report.loss_samples);
  now.samples_per_s = last_progress_->samples_per_s;
  const double seconds_so_far = summary_.seconds + report.seconds;
  now.seconds_left = seconds_so_far / static_cast<double>(now.step) * static_cast<double>(total_steps_ - now.step);
  observer_.on_progress(now);
}

void master_state::handle(epoch_report& report) {
  step = std::max(step, report.head.step);
  const std::uint64_t epoch = report.epoch;
  gathering_.try_emplace(epoch, job_.trainers, job_.loss).first->second.add(std::move(report));
  gathered();
}

void master_state::handle(evaluation& share) {
  const std::uint64_t epoch = share.epoch;
  gathering_.try_emplace(epoch, job_.trainers, job_.loss).first->second.add(std::move(share));
  gathered();
}

void master_state::note_metrics(const epoch_summary& epoch) {
  trace.metric(trace::metric_name::loss, epoch.step, epoch.figures.loss);
  if (epoch.figures.auc) trace.metric(trace::metric_name::auc, epoch.step, *epoch.figures.auc);
  if (epoch.figures.accuracy) trace.metric(trace::metric_name::accuracy, epoch.step, *epoch.figures.accuracy);
  if (epoch.figures.test_loss) trace.metric(trace::metric_name::test_loss, epoch.step, *epoch.figures.test_loss);
  if (epoch.figures.rmse) trace.metric(trace::metric_name::rmse, epoch.step, *epoch.figures.rmse);
  trace.metric(trace::metric_name::staleness, epoch.step, epoch.staleness_max);
}

/// Passes on what is complete, epoch by epoch.
void master_state::gathered() {
  while (!gathering_.empty() && gathering_.begin()->second.complete()) {
    epoch_summary epoch = gathering_.begin()->second.summary();
    gathering_.erase(gathering_.begin());
    // One that was over before, and has now been evaluated.
    if (epoch.samples == 0 && epoch.losses.front().empty()) epoch.figures.loss = summary_.figures.loss;
    summary_.samples += epoch.samples;
    summary_.seconds += epoch.seconds;
    summary_.figures = epoch.figures;
    summary_.skipped_steps += epoch.skipped_steps;
    summary_.staleness_max = std::max(summary_.staleness_max, epoch.staleness_max);
    staleness_sum_ += epoch.staleness_sum;
    lookups_ += epoch.lookups;
    note_metrics(epoch);
    if (observer_.on_epoch) observer_.on_epoch(epoch);
  }
}

master_actor::behavior_type master(master_state::pointer self, std::uint64_t run_number, run_observer observer,
                                   run_checkpoints checkpoints, std::optional<node_rules> nodes) {
  self->state.start(run_number, std::move(observer), std::move(checkpoints), std::move(nodes));
  // Whoever asked for the run is told: nobody else watches the master.
  fail_on_exceptions(self, [self](const caf::error& error) { self->state.fail(error); });
  return {
      recorded<join_server>(self),   recorded<join_trainer>(self), recorded<run>(self),
      recorded<status>(self),        recorded<stop>(self),         recorded<progress>(self),
      recorded<epoch_report>(self),  recorded<evaluation>(self),   recorded<save_dense>(self),
      recorded<join_node>(self),     recorded<node_lost>(self),    recorded<link_lost>(self),
      recorded<give_up>(self),       recorded<trouble>(self),      recorded<collect_evidence>(self),
      recorded<verdict_found>(self),
  };
}

}  // namespace troupe
