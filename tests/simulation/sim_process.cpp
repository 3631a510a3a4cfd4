#include "tests/simulation/sim_process.hpp"

#include <cstdio>
#include <utility>

namespace troupe::simulation {
sim_process::sim_process(event_loop& events, sim_disk& disk, std::uint32_t number, std::string name)
    : event_owner(number), events_(events), disk_(disk), name_(std::move(name)) {}

sim_process::~sim_process() {
  disk_.caller(number(), true);
  end_actors();
}

void sim_process::enter() {
  disk_.caller(number(), is_dead());
  scheduler().clock().current_time = events_.now();
}

void sim_process::leave() {
  if (is_dead()) return;
  if (!has_turn_ && scheduler().has_job()) {
    has_turn_ = true;
    constexpr sim_duration quick{1'000};
    constexpr sim_duration slow{30'000};
    events_.after(events_.draw(quick, slow), this, event_tag::turn, [this] {
      has_turn_ = false;
      run_one();
    });
  }
  look_at_timers();
}

void sim_process::run_one() {
  auto& jobs = scheduler().jobs;
  if (jobs.empty()) return;
  std::swap(jobs.front(), jobs[events_.random().below(jobs.size())]);
  scheduler().try_run_once();
}

void sim_process::look_at_timers() {
  auto& clock = scheduler().clock();
  while (!clock.schedule.empty() && clock.schedule.begin()->second.f.disposed())
    clock.schedule.erase(clock.schedule.begin());
  if (clock.schedule.empty()) return;
  const sim_time next = std::max(clock.schedule.begin()->first, events_.now());
  if (timer_ && *timer_ <= next) return;
  timer_ = next;
  events_.at(next, this, event_tag::timer, [this, next] {
    if (timer_ == next) timer_.reset();
    scheduler().advance_time(sim_duration(0));
  });
}

void sim_process::end_actors() {
  scheduler().clock().schedule.clear();
  for (int round = 0; round < 3; ++round) {
    for (caf::actor_id id = 1; id <= system_->latest_actor_id(); ++id)
      if (const auto one = system_->registry().get(id)) caf::anon_send_exit(one, caf::exit_reason::kill);
    run_all();
    scheduler().clock().schedule.clear();
  }
  if (system_->registry().running() == 0) return;
  // The system's destructor would wait for these actors.
  std::fprintf(stderr, "%s: %zu actors have not ended\n", name_.c_str(), system_->registry().running());
  (void)system_.release();
}

}  // namespace troupe::simulation
