// The workers of a real actor system help with parts of others' work until they are closed.

#include "actors/common/idle_workers.hpp"

#include <gtest/gtest.h>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <cstddef>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "kernels/idle_threads.hpp"

namespace troupe::actors::idle_workers_test {
namespace {

/// An actor system with this many workers.
class system_of {
 public:
  explicit system_of(std::size_t workers) {
    config_.set("caf.scheduler.max-threads", workers);
    system_.emplace(config_);
  }
  caf::actor_system& operator*() { return *system_; }
  void destroy() { system_.reset(); }

 private:
  caf::actor_system_config config_;
  std::optional<caf::actor_system> system_;
};

/// Returns the threads that run two parts, each of which waits for the other one.
std::vector<std::thread::id> threads_of_two_parts() {
  std::latch both_begun(2);
  std::vector<std::thread::id> by(2);
  kernels::in_parts(2, [&](std::size_t i) {
    by[i] = std::this_thread::get_id();
    both_begun.arrive_and_wait();
  });
  return by;
}

TEST(IdleWorkers, AreAllButTheOneThatWorks) {
  for (const std::size_t workers : {1, 2, 5}) {
    system_of system(workers);
    idle_workers helpers(*system);
    EXPECT_EQ(helpers.count(), workers - 1);
    helpers.close();
    EXPECT_EQ(helpers.count(), 0U);
  }
}

TEST(IdleWorkers, DoWhatIsOfferedToThem) {
  for (const std::size_t workers : {1, 3}) {
    std::promise<std::thread::id> by;
    system_of system(workers);
    idle_workers helpers(*system);
    helpers.offer([&by] { by.set_value(std::this_thread::get_id()); });
    EXPECT_NE(by.get_future().get(), std::this_thread::get_id());
    helpers.close();
  }
}

TEST(IdleWorkers, DoThePartsOfAThreadOutside) {
  system_of system(2);
  const workers_help help(*system);
  const auto by = threads_of_two_parts();
  EXPECT_EQ(by.front(), std::this_thread::get_id());
  EXPECT_NE(by.back(), by.front());
}

TEST(IdleWorkers, DoThePartsOfAnActorOnAnotherWorker) {
  std::promise<std::vector<std::thread::id>> by;
  std::promise<std::thread::id> actor_on;
  system_of system(2);
  const workers_help help(*system);
  (*system).spawn([&](caf::event_based_actor*) {
    actor_on.set_value(std::this_thread::get_id());
    by.set_value(threads_of_two_parts());
  });
  const auto threads = by.get_future().get();
  EXPECT_EQ(threads.front(), actor_on.get_future().get());
  EXPECT_NE(threads.back(), threads.front());
  EXPECT_NE(threads.back(), std::this_thread::get_id());
}

TEST(IdleWorkers, AreOfferedNothingOnceTheyAreClosed) {
  system_of system(3);
  const auto helpers = std::make_shared<idle_workers>(*system);
  const kernels::idle_threads_in_use in_use(helpers);
  helpers->close();
  const auto expect_no_offer = [] {
    const auto held = std::make_shared<int>();
    kernels::offer_to_idle([held] { ADD_FAILURE() << "called"; });
    EXPECT_EQ(held.use_count(), 1);
    std::vector<std::thread::id> by(4);
    kernels::in_parts(by.size(), [&](std::size_t i) { by[i] = std::this_thread::get_id(); });
    EXPECT_EQ(by, std::vector<std::thread::id>(4, std::this_thread::get_id()));
  };
  expect_no_offer();
  system.destroy();
  expect_no_offer();
  helpers->close();
}

TEST(IdleWorkers, HelpWhileTheirHandleLives) {
  system_of system(2);
  { const workers_help help(*system); }
  const auto held = std::make_shared<int>();
  kernels::offer_to_idle([held] {});
  EXPECT_EQ(held.use_count(), 1);
}

TEST(IdleWorkers, AreRidOfWhatTheyHaveDone) {
  const auto held = std::make_shared<int>();
  std::promise<void> done;
  system_of system(2);
  idle_workers helpers(*system);
  helpers.offer([held, &done] { done.set_value(); });
  done.get_future().get();
  helpers.close();
  system.destroy();
  EXPECT_EQ(held.use_count(), 1);
}

TEST(IdleWorkers, LateHelpOfAWorkThatIsOverIsHarmless) {
  system_of system(2);
  std::latch both_busy(2);
  std::latch over(1);
  int times = 0;
  {
    const workers_help help(*system);
    for (int worker = 0; worker < 2; ++worker)
      kernels::offer_to_idle([&] {
        both_busy.count_down();
        over.wait();
      });
    both_busy.wait();
    kernels::in_parts(3, [&times](std::size_t) { ++times; });
  }
  EXPECT_EQ(times, 3);
  over.count_down();
  system.destroy();
  EXPECT_EQ(times, 3);
}

/// Offers itself again when done, so some work is always waiting, even after the last worker has ended.
void offer_for_ever(caf::actor_system& system, const std::shared_ptr<int>& held) {
  idle_workers helpers(system);
  helpers.offer([&system, held] { offer_for_ever(system, held); });
  helpers.close();
}

TEST(IdleWorkers, WorkThatWaitsWhenTheSystemEndsIsReleased) {
  for (const std::size_t workers : {1, 2}) {
    system_of system(workers);
    const auto held = std::make_shared<int>();
    offer_for_ever(*system, held);
    EXPECT_GT(held.use_count(), 1);
    system.destroy();
    EXPECT_EQ(held.use_count(), 1);
  }
}

}  // namespace
}  // namespace troupe::actors::idle_workers_test
