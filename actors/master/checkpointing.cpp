#include "actors/master/checkpointing.hpp"

#include <filesystem>
#include <iterator>
#include <utility>

#include "actors/common/actor_name.hpp"
#include "actors/common/failure.hpp"
#include "actors/common/inline_execution.hpp"
#include "base/assert.hpp"
#include "model/arithmetic.hpp"

namespace troupe::actors {

namespace {

constexpr bool may_follow(checkpointing::state from, checkpointing::state to) {
  using enum checkpointing::state;
  constexpr std::pair<checkpointing::state, checkpointing::state> table[] = {
      {idle, trying}, {trying, idle}, {idle, gathering}, {gathering, writing}, {writing, idle}};
  return std::ranges::find(table, std::pair(from, to)) != std::end(table);
}

}  // namespace

double mean_time_between_failures(const run_checkpoints& rules, const membership& members) {
  if (!rules.automatic) return 0;
  if (rules.mtbf > 0) return rules.mtbf;
  constexpr double of_one_host = 24.0 * 60 * 60;
  std::set<std::string> hosts;
  for (const auto& [number, one] : members.nodes()) hosts.insert(one.host);
  return of_one_host / static_cast<double>(std::max<std::size_t>(hosts.size(), 1));
}

void checkpointing::enter(state next) {
  TROUPE_ASSERT(may_follow(state_, next));
  TROUPE_ASSERT(parts_missing_ == 0 && unwritten_.empty());
  state_ = next;
  time_to_write_.reset();
  if (state_ == state::writing) time_to_write_.emplace();
}

void checkpointing::start(const run_plan& plan, const table_shards& tables, const run_figures& figures,
                          std::function<void(const checkpoint_summary&)> report) {
  plan_ = &plan;
  tables_ = &tables;
  figures_ = &figures;
  report_ = report ? std::move(report) : [](const checkpoint_summary&) {};
  shares_.resize(plan.trainers);
  waiting_.resize(plan.trainers);
  ended_.resize(plan.trainers);
}

void checkpointing::save_beginning() {
  const auto& store = plan_->checkpoints.store;
  if (!store || plan_->checkpoints.from) return;
  model::checkpoint_manifest nothing;
  nothing.settings = plan_->settings;
  nothing.data_digest = plan_->data_digest();
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

caf::error checkpointing::add(msg::save_dense&& share, const caf::typed_response_promise<msg::committed>& answer) {
  const std::uint32_t rank = share.rank;
  if (plan_ == nullptr || rank >= waiting_.size() || !plan_->checkpoints.store)
    return make_failure(errc::wrong_context, "rank {} wants a checkpoint, this run saves none", rank);
  if (has(rank) || state_ == state::trying)
    return make_failure(errc::wrong_context, "rank {} wants a checkpoint while one is taken", rank);
  if (state_ == state::idle) enter(state::gathering);
  shares_[rank] = std::move(share);
  waiting_[rank] = answer;
  write_if_complete();
  return {};
}

void checkpointing::ended(std::uint32_t rank) {
  if (rank >= ended_.size() || !plan_->checkpoints.store) return;
  ended_[rank] = true;
  if (state_ == state::gathering) write_if_complete();
}

void checkpointing::write_if_complete() {
  for (std::size_t rank = 0; rank < waiting_.size(); ++rank)
    if (!waiting_[rank] && !(ended_[rank] && shares_[rank])) return;
  write();
}

std::uint64_t checkpointing::step() const {
  std::uint64_t last = 0;
  for (const auto& share : shares_)
    if (share) last = std::max(last, share->head.step);
  return last;
}

/// Returns the last step for which the shard's server has been sent gradients.
std::uint64_t checkpointing::step_of(const msg::module_ref& shard) const {
  std::uint64_t last = 0;
  for (const auto& share : shares_) {
    if (share->server_steps.empty()) return step();
    if (shard.rank < share->server_steps.size()) last = std::max(last, share->server_steps[shard.rank]);
  }
  return last;
}

void checkpointing::write() {
  enter(state::writing);
  begin_ = clock::now();
  files_.clear();
  problem_.reset();
  auto folder = plan_->checkpoints.store->begin(step());
  if (!folder) {
    forget();
    return finish(folder.error());
  }
  position_ = position();  // before any trainer reports a later step
  parts_missing_ = 1;      // the dense part
  for (std::size_t t = 0; t < tables_->size(); ++t)
    for (const msg::module_ref& shard : (*tables_)[t]) ask_for(t, shard, std::filesystem::absolute(*folder));
  aside(
      trace::range_name::save,
      [folder = *folder, views = dense_views(), numbers = shares_] { return model::write_dense(folder, views); },
      [this](result<model::saved_file> file) { written(std::move(file)); });
}

/// Releases the state that servers keep for this checkpoint, whose files cannot be written any more.
void checkpointing::forget() {
  for (const auto& shards : *tables_)
    for (const msg::module_ref& shard : shards)
      requests_.ask_aside<msg::saved_module>(
          shard.server, server_number(shard.rank),
          msg::save_module{trace_.next(step_of(shard), plan_->cause), shard.module, {}}, [](msg::saved_module&) {},
          [](const caf::error&) {});
}

/// Runs `work` on the writing thread, and then `then` with its result in the master, unless the checkpoint has ended.
/// Requires: `work` does not refer to the master.
template <class Work, class Then>
void checkpointing::aside(trace::range_name name, Work work, Then then) {
  const std::uint64_t begin = trace_.is_on() ? trace::ticks_now() : 0;
  auto* const self = requests_.self();
  writer_.run(self->system(), [this, name, begin, me = caf::actor_cast<caf::weak_actor_ptr>(self),
                               work = std::move(work), then = std::move(then)] {
    auto made = work();
    run_in(me, [this, name, begin, then, made = std::move(made)]() mutable {
      if (state_ != state::writing) return;
      { const actor_trace::range working(trace_, name, step(), begin); }
      then(std::move(made));
    });
  });
}

/// Asks a server to write a shard.
void checkpointing::ask_for(std::size_t table, const msg::module_ref& shard, const std::string& folder) {
  ++parts_missing_;
  const auto writing = unwritten_.insert(shard.rank);
  requests_.ask_aside<msg::saved_module>(
      shard.server, server_number(shard.rank),
      msg::save_module{trace_.next(step_of(shard), plan_->cause), shard.module, folder},
      [this, table, writing](msg::saved_module& file) {
        unwritten_.erase(writing);
        const planned_table& whole = plan_->tables.all[table];
        auto& parts = parts_[table];
        parts.clear();
        for (const msg::parameter_info& one : file.parts)
          parts.push_back({one.name, one.type, whole.split == model::table_split::columns ? whole.dim : one.cols});
        written(model::saved_file{std::move(file.name), file.length, std::move(file.digest)});
      },
      [this, writing](const caf::error& error) {
        // A server that has ended reports its reason by its down message.
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
  aside(
      trace::range_name::commit, [store = plan_->checkpoints.store, made = manifest()] { return store->commit(made); },
      [this](const result<void>& done) { finish(done ? std::nullopt : std::optional<fault>(done.error())); });
}

std::vector<model::tensor_view> checkpointing::dense_views() const {
  std::vector<model::tensor_view> views;
  for (const auto& share : shares_) {
    if (share->names.empty()) {
      std::ranges::move(plan_->dense.views(share->dense), std::back_inserter(views));
      continue;
    }
    for (std::size_t i = 0; i < share->dense.size(); ++i) {
      const msg::tensor& numbers = share->dense[i];
      const msg::named_shape& one = share->names[i];
      views.push_back({{one.name, numbers.type, one.shape}, std::span(numbers.bytes.data(), numbers.bytes.size())});
    }
  }
  return views;
}

model::run_position checkpointing::position() const {
  model::run_position position;
  const run_summary& before = figures_->so_far();
  position.samples = before.samples;
  position.seconds = before.seconds;
  position.skipped_steps = before.skipped_steps + shares_[0]->skipped;
  for (const auto& share : shares_) {
    position.ranks.push_back({share->loss_sum, share->samples});
    position.epoch_seconds = std::max(position.epoch_seconds, share->seconds);
  }
  if (before.samples > 0) position.last_epoch = before.figures;
  return position;
}

model::checkpoint_manifest checkpointing::manifest() const {
  model::checkpoint_manifest made;
  made.step = step();
  made.settings = plan_->settings;
  made.data_digest = plan_->data_digest();
  made.arithmetic = model::arithmetic_here();  // all members have the same: others are refused
  made.position = position_;
  for (const model::tensor_view& view : dense_views()) made.dense.push_back(view.what);
  for (std::size_t t = 0; t < tables_->size(); ++t) {
    const planned_table& table = plan_->tables.all[t];
    made.tables.push_back({table.rows, static_cast<std::uint32_t>((*tables_)[t].size()), parts_.at(t), table.split});
  }
  made.files = files_;
  return made;
}

/// The checkpoint has been committed or has failed: waiting trainers continue.
void checkpointing::finish(std::optional<fault> problem) {
  const std::uint64_t at_step = step();
  if (problem) plan_->checkpoints.store->abandon();
  const std::chrono::duration<double> seconds = clock::now() - begin_;
  double stood_still = 0;
  for (const auto& share : shares_)
    stood_still = std::max(stood_still, share->stood_still + (share->goes_on ? 0 : seconds.count()));
  report_({at_step, seconds.count(), std::move(problem), stood_still});
  const auto all =
      std::exchange(waiting_, std::vector<std::optional<caf::typed_response_promise<msg::committed>>>(waiting_.size()));
  std::vector<msg::message_id> asked;
  for (const auto& share : shares_) asked.push_back(msg::id_of(share->head));
  if (plan_->total_steps > 0) std::ranges::fill(shares_, std::nullopt);  // no trainer ends before the others
  enter(state::idle);
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (auto answer = all[rank]) answer->deliver(msg::committed{trace_.next(at_step, asked[rank])});
}

}  // namespace troupe::actors
