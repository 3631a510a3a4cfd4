#include "tests/simulation/leader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "actors/common/actor_name.hpp"
#include "protocol/errors.hpp"
#include "tests/simulation/member.hpp"

namespace troupe::simulation {
namespace {

/// Whether another attempt may avoid an error: errors of processes, links and machines.
bool may_succeed_again(const caf::error& why) { return protocol::is_transient(why); }

}  // namespace

leader::leader(world& where, std::uint32_t number)
    : where_(where), process_(where.events(), where.disk(), number, fmt::format("the master (process {})", number)) {}

leader::~leader() {
  where_.disk().caller(process_.number(), true);
  controls_.clear();
  boss_ = nullptr;
}

/// Opens the checkpoint folder, and finds the checkpoint to resume from.
result<actors::run_checkpoints> leader::open_checkpoints() {
  actors::run_checkpoints made{.store = nullptr, .every = where_.what().checkpoint_every, .from = nullptr};
  const std::string folder = where_.disk().root() + "/checkpoints";
  std::optional<model::resume_point> from;
  if (const auto steps = model::checkpoint_steps(folder); steps && !steps->empty()) {
    TROUPE_TRY(found, model::newest_whole_checkpoint(folder));
    for (const std::string& line : found.warnings) where_.report(line);
    made.from = std::make_shared<const model::checkpoint>(found.what);
    from = std::move(found);
  }
  const std::uint64_t step = made.from ? made.from->manifest.step : 0;
  if (step < where_.newest_committed_)
    return run_fault("the attempt continues from step {}, but the checkpoint of step {} had been told to be saved",
                     step, where_.newest_committed_);
  TROUPE_TRY(store, model::checkpoint_store::open(folder, from ? &*from : nullptr));
  made.store = std::make_shared<model::checkpoint_store>(std::move(store));
  store_ = made.store;
  return made;
}

actors::run_observer leader::observer() {
  actors::run_observer all;
  all.on_note = [this](const std::string& line) { where_.report(line); };
  all.on_epoch = [this](const actors::epoch_summary& one) { where_.epochs_.push_back(one); };
  all.on_checkpoint = [this](const actors::checkpoint_summary& one) {
    where_.report(fmt::format("checkpoint of step {}{}", one.step,
                              one.problem ? " failed: " + one.problem->message : std::string(" is saved")));
    if (one.problem && !where_.disk().has_failed()) where_.failed("a checkpoint failed: " + one.problem->message);
    if (!one.problem) where_.newest_committed_ = std::max(where_.newest_committed_, one.step);
  };
  return all;
}

/// Returns the job of an attempt that starts at `step`, perhaps with a different number of trainers than the last one.
std::vector<model::setting> leader::job_from(std::uint64_t step) {
  std::vector<model::setting> settings = where_.what().job;
  const auto what = model::parse_job(settings).value();
  trainers_ = what.elastic.is_on() ? model::trainers_at(what.elastic.memberships, step) : what.trainers;
  for (auto& [name, text] : settings)
    if (name == "trainers") text = std::to_string(trainers_);
  return settings;
}

void leader::begin_attempt() {
  const scenario& what = where_.what();
  if (!store_.expired()) {  // the previous attempt has not released the folder yet
    constexpr std::chrono::milliseconds pause{10};
    return where_.events().after(pause, &process_, event_tag::attempt, [this] { begin_attempt(); });
  }
  where_.begun();
  const std::uint64_t attempt = where_.attempts_;
  (void)where_.disk().has_failed();
  auto checkpoints = open_checkpoints();
  if (!checkpoints) {
    if (!where_.disk().has_failed()) return where_.failed(checkpoints.error().message);
    where_.report("attempt put off: " + checkpoints.error().message);
    constexpr std::chrono::seconds pause{1};
    where_.events().after(pause, &process_, event_tag::attempt, [this] { begin_attempt(); });
    return;
  }
  const auto job = job_from(checkpoints->from ? checkpoints->from->manifest.step : 0);
  run_ = 1 + where_.events().random().below(std::uint64_t{1} << 53);
  where_.report(fmt::format("attempt {} is run {}, from step {}", attempt, run_,
                            checkpoints->from ? checkpoints->from->manifest.step : 0));
  constexpr std::chrono::milliseconds request_timeout{20'000};
  actors::node_rules rules;
  rules.request_timeout = request_timeout;
  rules.own_members = true;
  rules.again = [] { return true; };
  rules.attempt = attempt;
  rules.lost = lost_;
  rules.rejoin_timeout = what.rejoin_timeout;
  boss_ =
      process_.system().spawn(actors::master, run_, observer(), std::move(*checkpoints),
                              std::optional<actors::node_rules>(std::move(rules)), actors::planner(actors::plan_job));
  process_.system().registry().put(boss_.id(), caf::actor_cast<caf::strong_actor_ptr>(boss_));
  process_.system().spawn([this, job, run = run_, boss = boss_](caf::event_based_actor* self) {
    const msg::run order{msg::header_source(run, actors::client_number).next(0, 0), job, false};
    self->request(boss, caf::infinite, order)
        .then([this](const msg::run_result& result) { attempt_ended(result); },
              [this](const caf::error& why) {
                where_.events().after(sim_duration(0), &process_, event_tag::attempt,
                                      [this, why] { attempt_failed(why); });
              });
  });
  absent_since_.clear();
  look_for_members(attempt);
}

void leader::attempt_ended(const msg::run_result& result) {
  if (result.goes_on_with > 0) {
    lost_ = fmt::format("{} trainers from step {} on", result.goes_on_with, result.steps);
    where_.report(lost_);
    where_.events().after(sim_duration(0), &process_, event_tag::attempt, [this] { begin_next(); });
    return;
  }
  where_.finished({.digest = result.weights_digest,
                   .steps = result.steps,
                   .samples = result.samples,
                   .figures = {result.loss, result.auc, result.accuracy, result.log_loss, result.calibration,
                               result.test_loss, result.rmse},
                   .epochs = {}});
  where_.events().after(sim_duration(0), &process_, event_tag::see_off, [this] { see_off(); });
}

void leader::attempt_failed(const caf::error& why) {
  lost_ = protocol::describe(why);
  where_.report("the attempt has failed: " + lost_);
  // A full disk may have room later.
  const bool by_disk = why == protocol::errc::bad_input && where_.disk().has_failed();
  if (!by_disk && !may_succeed_again(why)) return where_.failed("an attempt ended by " + caf::to_string(why));
  begin_next();
}

void leader::begin_next() {
  constexpr std::chrono::milliseconds time_to_leave{1000};
  where_.events().after(time_to_leave, &process_, event_tag::see_off, [this] {
    see_off();
    where_.events().after(sim_duration(1'000'000), &process_, event_tag::attempt, [this] { begin_attempt(); });
  });
}

/// Closes the connections of members that have not left.
void leader::see_off() {
  boss_ = nullptr;
  for (const auto& [session, one] : std::exchange(controls_, {})) one->close();
  places_.clear();
}

// -- members ------------------------------------------------------------------------------

result<void> leader::accept(const std::shared_ptr<sim_link>& wire, place_number place, const std::string& session) {
  if (!boss_) return failure(fault_kind::unreachable, "no process listens there");
  const auto made = std::make_shared<sim_control>(process_.system(), wire);
  controls_[session] = made;
  places_[session] = place;
  made->start([this, session, boss = boss_](const fault* why) {
    caf::anon_send(boss, msg::node_lost{{}, session, why != nullptr ? why->message : std::string()});
    places_.erase(session);
    controls_.erase(session);
  });
  return {};
}

/// Starts new processes for places whose processes do not join.
void leader::look_for_members(std::uint64_t attempt) {
  constexpr std::chrono::seconds patience{8};
  constexpr std::chrono::milliseconds interval{500};
  if (!boss_ || attempt != where_.attempts_) return;
  const scenario& what = where_.what();
  for (place_number place = 1; place < where_.places(); ++place) {
    if (place > what.servers + trainers_) break;  // this attempt has fewer trainers
    const bool is_here = std::ranges::any_of(places_, [&](const auto& one) { return one.second == place; });
    if (is_here) {
      absent_since_.erase(place);
      continue;
    }
    const sim_time since = absent_since_.try_emplace(place, where_.events().now()).first->second;
    const member* const last = where_.at(place);
    const bool is_gone = last == nullptr || last->is_dead();
    if (!what.fills_places && attempt > 1 && where_.has_process_like(place)) continue;
    if (!is_gone && where_.events().now() - since < patience) continue;
    where_.fill(place);
    absent_since_.erase(place);
  }
  where_.events().after(interval, &process_, event_tag::look, [this, attempt] { look_for_members(attempt); });
}

}  // namespace troupe::simulation
