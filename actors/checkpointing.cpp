#include "actors/checkpointing.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "actors/actor_name.hpp"
#include "actors/failure.hpp"
#include "base/assert.hpp"

namespace troupe::actors {

namespace {

constexpr bool may_follow(checkpointing::state from, checkpointing::state to) {
  using enum checkpointing::state;
  constexpr std::pair<checkpointing::state, checkpointing::state> table[] = {
      {idle, trying}, {trying, idle}, {idle, gathering}, {gathering, writing}, {writing, idle}};
  return std::ranges::find(table, std::pair(from, to)) != std::end(table);
}

}  // namespace

void checkpointing::enter(state next) {
  TROUPE_ASSERT(may_follow(state_, next));
  TROUPE_ASSERT(parts_missing_ == 0 && unwritten_.empty());
  state_ = next;
}

void checkpointing::start(const run_plan& plan, const table_shards& tables, const run_figures& figures,
                          std::function<void(const checkpoint_summary&)> report) {
  plan_ = &plan;
  tables_ = &tables;
  figures_ = &figures;
  report_ = report ? std::move(report) : [](const checkpoint_summary&) {};
  waiting_.resize(plan.trainers);
}

void checkpointing::save_beginning() {
  const auto& [store, every, from] = plan_->checkpoints;
  if (!store || from) return;
  model::checkpoint_manifest nothing;
  nothing.settings = plan_->settings;
  nothing.data_digest = plan_->data_digest;
  nothing.position.ranks.resize(plan_->trainers);
  auto begun = store->begin(0);
  auto done = begun ? store->commit(std::move(nothing)) : tl::unexpected(begun.error());
  if (!done) report_({0, 0, done.error()});
}

// -- the folder that servers try ---------------------------------------------------

std::string checkpointing::folder_to_try() {
  if (!plan_->checkpoints.store) return {};
  enter(state::trying);
  const auto begun = plan_->checkpoints.store->begin(plan_->steps_done);
  return begun ? std::filesystem::absolute(*begun).string() : std::string();
}

void checkpointing::tried() {
  if (!plan_->checkpoints.store) return;
  plan_->checkpoints.store->abandon();
  enter(state::idle);
}

// -- a checkpoint ----------------------------------------------------------------

caf::error checkpointing::add(msg::save_dense&& share, const caf::typed_response_promise<msg::committed>& go_on) {
  const std::uint32_t rank = share.rank;
  if (plan_ == nullptr || rank >= waiting_.size() || !plan_->checkpoints.store)
    return make_failure(errc::wrong_context, "rank {} wants a checkpoint, there is none to take", rank);
  if (has(rank) || state_ == state::trying)
    return make_failure(errc::wrong_context, "rank {} wants a checkpoint while one is taken", rank);
  if (state_ == state::idle) enter(state::gathering);
  waiting_[rank] = {std::move(share), go_on};
  if (std::ranges::all_of(waiting_, [](const auto& one) { return one.has_value(); })) write();
  return {};
}

void checkpointing::write() {
  enter(state::writing);
  begin_ = clock::now();
  files_.clear();
  problem_.reset();
  auto folder = plan_->checkpoints.store->begin(step());
  if (!folder) return finish(folder.error());
  parts_missing_ = 1;  // the dense part
  for (const auto& shards : *tables_)
    for (const msg::module_ref& shard : shards) ask_for(shard, std::filesystem::absolute(*folder));
  const actor_trace::range working(trace_, trace::range_name::save, step());
  written(model::write_dense(*folder, dense_views()));
}

/// Asks a server to write a shard.
void checkpointing::ask_for(const msg::module_ref& shard, const std::string& folder) {
  ++parts_missing_;
  const auto writing = unwritten_.insert(shard.rank);
  requests_.ask_aside<msg::saved_module>(
      shard.server, server_number(shard.rank),
      msg::save_module{trace_.next(step(), plan_->cause), shard.module, folder},
      [this, writing](msg::saved_module& file) {
        unwritten_.erase(writing);
        written(model::saved_file{std::move(file.name), file.length, std::move(file.digest)});
      },
      [this, writing](const caf::error& error) {
        // The down message of a server that has ended gives the reason.
        if (protocol::is_secondary(error)) return;
        unwritten_.erase(writing);
        written(run_fault(protocol::describe(error)));
      });
}

void checkpointing::written(result<model::saved_file> part) {
  TROUPE_ASSERT(state_ == state::writing && parts_missing_ > 0);
  if (part)
    files_.push_back(std::move(*part));
  else
    problem_ = std::move(part.error());
  if (--parts_missing_ > 0) return;
  if (problem_) return finish(std::move(problem_));
  const auto commit = [this] {
    const actor_trace::range working(trace_, trace::range_name::commit, step());
    return plan_->checkpoints.store->commit(manifest());
  };
  const auto done = commit();
  finish(done ? std::nullopt : std::optional<fault>(done.error()));
}

std::vector<model::tensor_view> checkpointing::dense_views() const {
  const std::vector<msg::tensor>& buffers = waiting_[0]->share.dense;
  std::vector<model::tensor_view> views;
  for (std::size_t buffer = 0; buffer < buffers.size(); ++buffer)
    for (const model::named_parameter& one : plan_->dense) {
      const auto part = buffers[buffer].as<float>().subspan(one.first, one.count());
      views.push_back(
          {{dense_tensor_name(one.name, buffer), model::tensor_type::f32, {one.shape.begin(), one.shape.end()}},
           std::as_bytes(part)});
    }
  return views;
}

model::checkpoint_manifest checkpointing::manifest() const {
  model::checkpoint_manifest made;
  made.step = step();
  made.settings = plan_->settings;
  made.data_digest = plan_->data_digest;
  model::run_position& position = made.position;
  const run_summary& before = figures_->so_far();
  position.samples = before.samples;
  position.seconds = before.seconds;
  position.skipped_steps = before.skipped_steps + waiting_[0]->share.skipped;
  for (const auto& one : waiting_) {
    position.ranks.push_back({one->share.loss_sum, one->share.samples});
    position.epoch_seconds = std::max(position.epoch_seconds, one->share.seconds);
  }
  if (before.samples > 0) position.last_epoch = before.figures;
  for (const model::tensor_view& view : dense_views()) made.dense.push_back(view.what);
  for (std::size_t t = 0; t < tables_->size(); ++t) {
    const planned_table& table = plan_->tables[t];
    made.tables.push_back({table.rows, static_cast<std::uint32_t>((*tables_)[t].size()), table.parts});
  }
  made.files = files_;
  return made;
}

/// The checkpoint has been committed or has failed: the trainers continue.
void checkpointing::finish(std::optional<fault> problem) {
  const std::uint64_t at_step = step();
  if (problem) plan_->checkpoints.store->abandon();
  const std::chrono::duration<double> seconds = clock::now() - begin_;
  report_({at_step, seconds.count(), std::move(problem)});
  auto all = std::exchange(waiting_, std::vector<std::optional<waiting_trainer>>(waiting_.size()));
  enter(state::idle);
  for (auto& one : all) one->go_on.deliver(msg::committed{trace_.next(at_step, msg::id_of(one->share.head))});
}

}  // namespace troupe::actors
