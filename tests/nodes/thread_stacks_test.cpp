// The stacks of a process in which some threads do not answer.

#include "cluster/nodes/thread_stacks.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace troupe::nodes::thread_stacks_test {
namespace {

TEST(ThreadStacksTiming, ThreadsThatKeepSignalsToThemselvesAreNotWaitedForASecondEach) {
  constexpr int threads = 40;
  std::promise<void> over;
  const std::shared_future<void> end = over.get_future().share();
  std::atomic<int> deaf = 0;
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&deaf, end] {
      sigset_t every;
      sigfillset(&every);
      pthread_sigmask(SIG_BLOCK, &every, nullptr);
      ++deaf;
      end.wait();
    });
  }
  while (deaf < threads) std::this_thread::yield();
  const auto begin = std::chrono::steady_clock::now();
  const std::string text = stacks_of_all_threads();
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  over.set_value();
  for (std::thread& one : all) one.join();
  EXPECT_LT(taken.count(), threads / 2);
  int silent = 0;
  for (std::size_t at = 0; (at = text.find("it does not answer", at)) != std::string::npos; ++at) ++silent;
  EXPECT_GE(silent, threads) << text;
}

}  // namespace
}  // namespace troupe::nodes::thread_stacks_test
