// Which actors run on the thread that wakes them.

#include "actors/common/inline_execution.hpp"

#include <gtest/gtest.h>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <functional>
#include <future>
#include <thread>

namespace troupe::actors::inline_execution_test {
namespace {

class InlineExecution : public testing::Test {
 protected:
  ~InlineExecution() override { caf::anon_send_exit(actor_, caf::exit_reason::kill); }

  /// Runs `what` in the actor; returns the thread that ran it.
  std::thread::id thread_of(const std::function<void()>& what) {
    std::promise<std::thread::id> done;
    run_in(
        caf::actor_cast<caf::strong_actor_ptr>(actor_),
        [&] {
          what();
          done.set_value(std::this_thread::get_id());
        },
        &unit_);
    unit_.run();
    return done.get_future().get();
  }

  caf::actor_system_config config_;
  caf::actor_system system_{config_};
  inline_execution unit_{&system_};
  caf::event_based_actor* self_ = nullptr;
  caf::actor actor_ = system_.spawn([this](caf::event_based_actor* self) -> caf::behavior {
    self_ = self;
    return {[](int) {}};
  });
};

TEST_F(InlineExecution, LeavesActorsThatRunUsersCodeToTheWorkers) {
  const auto here = std::this_thread::get_id();
  constexpr int many = 1000;  // a worker that still runs the actor also runs the next call
  int times = 0;
  while (thread_of([] {}) != here && times < many) ++times;
  ASSERT_LT(times, many) << "it runs here";
  thread_of([this] { leave_to_workers(self_); });
  for (times = 0; times < many; ++times) ASSERT_NE(thread_of([] {}), here) << times;
}

}  // namespace
}  // namespace troupe::actors::inline_execution_test
