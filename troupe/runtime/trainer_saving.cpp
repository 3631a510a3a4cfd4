// What a trainer tells the master while it trains: how far it is, and its part of checkpoints.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actors/actor_name.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/errors.hpp"
#include "troupe/runtime/trainer_runtime.hpp"

namespace troupe::runtime {

namespace {

std::vector<std::int64_t> as_signed(const std::vector<std::uint64_t>& numbers) {
  return {numbers.begin(), numbers.end()};
}

}  // namespace

/// Tells the master how far this trainer is, a few times a second.
void trainer_runtime::report() {
  constexpr std::chrono::milliseconds interval{200};
  const auto now = clock::now();
  if (now < last_report_ + interval) return;
  last_report_ = now;
  const std::chrono::duration<double> seconds = now - begin_;
  const actors::inline_execution::elsewhere there(woken_.get(), self_);
  self_->send(peers_.reports, msg::progress{trace.next(step), 0, seconds.count(), loss_sum_, losses_});
  loss_sum_ = 0;
  losses_ = 0;
}

/// Throws unless the step is taken where a resumed run can find its place.
void trainer_runtime::check_loops(bool is_first_step) const {
  if (loops_.none())
    throw error(
        error_kind::input,
        "--save: a checkpoint needs to know where the trainer function is; take the optimizer's steps in a loop of "
        "trainer::steps or trainer::batches");
  if (!is_first_step)
    throw error(
        error_kind::input,
        "--save: a second optimizer step in one iteration of trainer::steps or trainer::batches; take one in each "
        "iteration");
}

/// Decides whether this trainer wants a checkpoint after the step, and throws if the others would not hear of it.
void trainer_runtime::look_at_clock() {
  const bool is_told =
      std::ranges::any_of(replicas_, [](const auto& one) { return one->is_in_step() && one->buckets() > 0; });
  if (trainers_ > 1 && !is_told)
    throw error(
        error_kind::input,
        "--checkpoint-seconds: trainers agree on a checkpoint in the steps that they take together, and none of "
        "their replicas has gradients that are summed up; use --checkpoint-every N");
  save_wanted_ = timer_ && timer_->is_due(actors::checkpoint_timer::now());
  if (!is_told) saving_ = save_wanted_;
}

bool trainer_runtime::saves_now() const {
  return saves_ && (stops_now_ || saving_ || (checkpoint_every_ > 0 && step % checkpoint_every_ == 0));
}

/// Gives the master this trainer's part of a checkpoint, and calls `then` when training may go on.
void trainer_runtime::save(std::function<void()> then, std::function<void(const error&)> on_error) {
  msg::save_dense share{.head = trace.next(step), .rank = rank_};
  share.server_steps = server_steps();
  try {
    for (const auto& one : replicas_)
      if (one->is_saved_by(rank_)) one->put(share);
    kept_.put_own(share, {{"steps", {static_cast<std::int64_t>(steps_done_)}},
                          {"contexts", {static_cast<std::int64_t>(contexts_)}},
                          {"loops", as_signed(loops_.place())},
                          {"server_steps", as_signed(share.server_steps)}});
  } catch (const error& wrong) {
    return on_error(wrong);
  }
  saved_step_ = steps_done_;
  saving_ = false;
  if (timer_) timer_->begins(actors::checkpoint_timer::now(), steps_done_);
  ask<msg::committed>(
      peers_.reports, actors::master_number, std::move(share),
      [this, then = std::move(then)](const msg::committed&) {
        if (timer_) timer_->ends(actors::checkpoint_timer::now(), steps_done_);
        then();
      },
      [on_error = std::move(on_error)](const caf::error& why) { on_error(to_error(why)); });
}

/// Takes the last checkpoint, and answers.
void trainer_runtime::finish() {
  if (is_over_) return;
  if (!saves_ || saved_step_ == steps_done_) return deliver();
  kept_.end();
  save([this] { deliver(); }, [this](const error& why) { ended(std::make_exception_ptr(why)); });
}

/// Begins where the checkpoint was taken.
void trainer_runtime::resume() {
  if (!kept_.is_resumed()) return;
  const auto unsigned_of = [this](const char* which) {
    const auto numbers = kept_.restored_own(which);
    return std::vector<std::uint64_t>(numbers.begin(), numbers.end());
  };
  step = steps_done_ = saved_step_ = unsigned_of("steps").at(0);
  contexts_ = unsigned_of("contexts").at(0);
  loops_.resume(unsigned_of("loops"));
  const auto by_server = unsigned_of("server_steps");
  for (std::uint32_t server = 0; server < by_server.size(); ++server)
    if (by_server[server] > 0) server_steps_[server] = by_server[server];
}

/// The steps that each server has been sent gradients for, by its rank; at least one number.
std::vector<std::uint64_t> trainer_runtime::server_steps() const {
  std::vector<std::uint64_t> steps(1);
  for (const auto& [server, count] : server_steps_) {
    steps.resize(std::max<std::size_t>(steps.size(), server + std::size_t{1}));
    steps[server] = count;
  }
  return steps;
}

}  // namespace troupe::runtime
