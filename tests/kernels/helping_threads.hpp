// Test threads that help with parts of other threads' work.

#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/idle_threads.hpp"

namespace troupe::kernels::test {

/// Does all offered work, including what is left when it is destroyed.
class helping_threads : public idle_threads {
 public:
  explicit helping_threads(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) threads_.emplace_back([this] { run(); });
  }
  ~helping_threads() override {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    for (std::thread& one : threads_) one.join();
  }
  helping_threads(const helping_threads&) = delete;
  helping_threads& operator=(const helping_threads&) = delete;

  std::size_t count() const override { return threads_.size(); }

  void offer(std::function<void()> help) override {
    ++offers_;
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(std::move(help));
    }
    changed_.notify_one();
  }

  /// How often work was offered.
  std::size_t offers() const { return offers_; }

  bool has(std::thread::id thread) const {
    return std::ranges::any_of(threads_, [thread](const std::thread& one) { return one.get_id() == thread; });
  }

 private:
  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ended_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const std::function<void()> help = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      help();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  bool ended_ = false;
  std::atomic<std::size_t> offers_ = 0;
  std::vector<std::thread> threads_;
};

/// Runs all offered work before `offer` returns: of split work all parts, the last part first.
class hasty_thread final : public idle_threads {
 public:
  std::size_t count() const override { return 1; }
  void offer(std::function<void()> help) override {
    ++offers_;
    std::thread(std::move(help)).join();
  }
  std::size_t offers() const { return offers_; }

 private:
  std::atomic<std::size_t> offers_ = 0;
};

}  // namespace troupe::kernels::test
