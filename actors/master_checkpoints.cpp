// The master's part in checkpoints. All trainers stand still after the same step; the servers write their shards, the
// master writes the dense part and commits. A checkpoint that cannot be taken is reported, and training goes on.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "actors/actor_name.hpp"
#include "actors/embedding_bag_arguments.hpp"
#include "actors/master.hpp"
#include "model/hybrid.hpp"
#include "model/placement.hpp"
#include "protocol/errors.hpp"
#include "protocol/messages.hpp"

namespace troupe {

namespace {

std::string state_name(const std::string& parameter, std::size_t buffer) {
  return buffer == 0 ? parameter : fmt::format("{}.state.{}", parameter, buffer - 1);
}

}  // namespace

// -- going on from one ---------------------------------------------------------

caf::error master_state::restore_position() {
  positions_.assign(job_.trainers, {});
  if (!checkpoints_.from) return {};
  const checkpoint_manifest& saved = checkpoints_.from->manifest;
  steps_done_ = saved.step;
  step = steps_done_;
  if (auto wrong = check_resumed(saved, job_, *data_, total_steps_))
    return make_failure(errc::bad_input, std::move(*wrong));
  if (steps_done_ == 0) return {};
  const run_position& position = saved.position;
  summary_.samples = position.samples;
  summary_.seconds = position.seconds;
  summary_.skipped_steps = position.skipped_steps;
  summary_.figures = position.last_epoch.value_or(epoch_figures{});
  const epoch_figures& last = summary_.figures;
  const bool evaluated = last.auc || last.accuracy || last.log_loss || last.calibration || last.test_loss;
  auto dense = restore_dense();
  if (!dense) return dense.error();
  for (std::uint32_t rank = 0; rank < job_.trainers; ++rank) {
    const rank_position& mine = position.ranks.at(rank);
    positions_[rank] = {steps_done_, mine.samples, mine.loss_sum, position.epoch_seconds, *dense, evaluated};
  }
  return {};
}

caf::expected<std::vector<tensor>> master_state::restore_dense() const {
  const hybrid_model model(data_->spec(), job_);
  std::vector<tensor> buffers;
  for (int buffer = 0; buffer <= state_buffers(job_.dense_optimizer); ++buffer) {
    std::vector<float> flat(model.parameter_count());
    for (const named_parameter& one : model.parameters()) {
      const std::span part(flat.data() + one.first, one.count());
      if (auto read = read_dense(*checkpoints_.from, state_name(one.name, static_cast<std::size_t>(buffer)),
                                 std::as_writable_bytes(part));
          !read)
        return make_failure(errc::bad_input, read.error().message);
    }
    const std::uint64_t count = flat.size();
    buffers.push_back(tensor::own(count, 1, std::move(flat)));
  }
  return buffers;
}

void master_state::restore_tables() {
  for (const auto& shards : tables_)
    for (const module_ref& shard : shards)
      ask<committed>(
          shard.server,
          restore_module{trace.next(0, cause_), shard.module, std::filesystem::absolute(checkpoints_.from->directory),
                         steps_done_},
          [](committed&) {}, &master_state::start_training);
}

// -- taking one ----------------------------------------------------------------

/// Of step 0 there is nothing to save but the job: going on from it is starting anew.
void master_state::save_beginning() {
  if (!checkpoints_.store || checkpoints_.from) return;
  save_begin_ = clock::now();
  checkpoint_manifest nothing;
  nothing.settings = to_settings(job_);
  nothing.data_digest = data_->digest();
  nothing.position.ranks.resize(job_.trainers);
  auto begun = checkpoints_.store->begin(0);
  auto done = begun ? checkpoints_.store->commit(std::move(nothing)) : tl::unexpected(begun.error());
  if (!done && observer_.on_checkpoint) observer_.on_checkpoint({0, 0, done.error()});
}

caf::result<committed> master_state::handle(save_dense& share) {
  if (share.rank >= trainers_.size() || !checkpoints_.store)
    return make_failure(errc::wrong_context,
                        fmt::format("rank {} wants a checkpoint, there is none to take", share.rank));
  waiting_.resize(trainers_.size());
  auto promise = self_->make_response_promise<committed>();
  const std::uint32_t rank = share.rank;
  waiting_[rank] = {std::move(share), promise};
  if (std::ranges::all_of(waiting_, [](const auto& one) { return one.has_value(); })) save();
  return promise;
}

void master_state::save() {
  save_begin_ = clock::now();
  save_problem_.reset();
  const std::uint64_t at_step = waiting_[0]->share.head.step;
  auto folder = checkpoints_.store->begin(at_step);
  if (!folder) return saved(folder.error());
  saved_files_.clear();
  saves_pending_ = 1;
  for (const auto& shards : tables_) {
    for (const module_ref& shard : shards) {
      ++saves_pending_;
      const auto writing = saving_servers_.insert(shard.rank);
      save_module order{trace.next(at_step, cause_), shard.module, std::filesystem::absolute(*folder)};
      const message_id asked = id_of(order.head);
      trace.asks(order.head, caf::type_id_v<save_module>, server_number(shard.rank));
      self_->request(shard.server, patience(), std::move(order))
          .then(
              [this, writing, asked](saved_module& file) {
                trace.has_answer(asked);
                const actor_trace::handling scope(trace, file, trace::flag::answer);
                saving_servers_.erase(writing);
                saved_files_.push_back({std::move(file.name), file.length, std::move(file.digest)});
                part_saved();
              },
              [this, writing](const caf::error& error) {
                // A server that has gone says why by its own death.
                if (is_secondary(error)) return;
                saving_servers_.erase(writing);
                save_problem_ = fault{fault_kind::run, describe(error)};
                part_saved();
              });
    }
  }
  const actor_trace::range working(trace, trace::range_name::save, at_step);
  if (auto file = write_dense(*folder, dense_views()))
    saved_files_.push_back(std::move(*file));
  else
    save_problem_ = file.error();
  part_saved();
}

std::vector<tensor_view> master_state::dense_views() const {
  const hybrid_model model(data_->spec(), job_);
  const std::vector<tensor>& buffers = waiting_[0]->share.dense;
  std::vector<tensor_view> views;
  for (std::size_t buffer = 0; buffer < buffers.size(); ++buffer)
    for (const named_parameter& one : model.parameters()) {
      const auto part = buffers[buffer].as<float>().subspan(one.first, one.count());
      views.push_back({{state_name(one.name, buffer), tensor_type::f32, {one.shape.begin(), one.shape.end()}},
                       std::as_bytes(part)});
    }
  return views;
}

void master_state::part_saved() {
  if (!running_ || --saves_pending_ > 0) return;
  if (save_problem_) return saved(std::move(save_problem_));
  tl::expected<void, fault> done;
  {
    const actor_trace::range working(trace, trace::range_name::commit, waiting_[0]->share.head.step);
    done = checkpoints_.store->commit(manifest());
  }
  if (!done) return saved(done.error());
  saved(std::nullopt);
}

checkpoint_manifest master_state::manifest() const {
  checkpoint_manifest made;
  made.step = waiting_[0]->share.head.step;
  made.settings = to_settings(job_);
  made.data_digest = data_->digest();
  run_position& position = made.position;
  position.samples = summary_.samples;
  position.seconds = summary_.seconds;
  position.skipped_steps = summary_.skipped_steps + waiting_[0]->share.skipped;
  for (const auto& one : waiting_) {
    position.ranks.push_back({one->share.loss_sum, one->share.samples});
    position.epoch_seconds = std::max(position.epoch_seconds, one->share.seconds);
  }
  if (summary_.samples > 0) position.last_epoch = summary_.figures;
  for (const tensor_view& view : dense_views()) made.dense.push_back(view.what);
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    const table_spec& spec = data_->spec().tables[t];
    made.tables.push_back({static_cast<std::uint64_t>(spec.rows), static_cast<std::uint32_t>(tables_[t].size()),
                           embedding_bag_parts(job_, spec)});
  }
  made.files = saved_files_;
  return made;
}

/// The checkpoint is over, for good or ill: the trainers go on.
void master_state::saved(std::optional<fault> problem) {
  const std::uint64_t at_step = waiting_[0]->share.head.step;
  if (problem) checkpoints_.store->abandon();
  const std::chrono::duration<double> seconds = clock::now() - save_begin_;
  if (observer_.on_checkpoint) observer_.on_checkpoint({at_step, seconds.count(), std::move(problem)});
  for (auto& one : std::exchange(waiting_, {}))
    one->promise.deliver(committed{trace.next(at_step, id_of(one->share.head))});
}

}  // namespace troupe
