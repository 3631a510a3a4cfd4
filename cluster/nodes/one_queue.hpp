// A policy of CAF's scheduler for few workers.

#pragma once

#include <atomic>
#include <caf/policy/unprofiled.hpp>
#include <caf/resumable.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>

#include "base/lingering.hpp"

namespace troupe::nodes {

/// Keeps runnable actors in one queue, which idle workers poll briefly before they sleep. CAF's own shared queue wakes
/// an idle worker for each message: where cores sleep deeply, small steps then take more than twice as long. It also
/// allocates memory for each message, and workers that look for work lock it.
class one_queue : public caf::policy::unprofiled {
 public:
  /// The queue. Thread: any.
  class coordinator_data {
   public:
    explicit coordinator_data(caf::scheduler::abstract_coordinator*) {}

    void push(caf::resumable* job) {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(job);
      count_.store(jobs_.size(), std::memory_order_release);
      arrived_.notify_one();
    }

    /// Returns null if it is empty.
    caf::resumable* try_pop() {
      if (count_.load(std::memory_order_acquire) == 0) return nullptr;
      const std::lock_guard lock(mutex_);
      return jobs_.empty() ? nullptr : take();
    }

    /// Sleeps while it is empty.
    caf::resumable* pop() {
      std::unique_lock lock(mutex_);
      arrived_.wait(lock, [this] { return !jobs_.empty(); });
      return take();
    }

   private:
    caf::resumable* take() {
      caf::resumable* const job = jobs_.front();
      jobs_.pop_front();
      count_.store(jobs_.size(), std::memory_order_release);
      return job;
    }

    std::mutex mutex_;
    std::condition_variable arrived_;
    std::deque<caf::resumable*> jobs_;
    std::atomic<std::size_t> count_ = 0;  ///< size of `jobs_`
  };

  struct worker_data {
    explicit worker_data(caf::scheduler::abstract_coordinator*) {}
    lingering lingers{std::chrono::microseconds(30)};
  };

  template <class Coordinator>
  void central_enqueue(Coordinator* self, caf::resumable* job) {
    d(self).push(job);
  }
  template <class Worker>
  void external_enqueue(Worker* self, caf::resumable* job) {
    d(self->parent()).push(job);
  }
  template <class Worker>
  void internal_enqueue(Worker* self, caf::resumable* job) {
    d(self->parent()).push(job);
  }
  /// Requeues the job, so that others run first.
  template <class Worker>
  void resume_job_later(Worker* self, caf::resumable* job) {
    d(self->parent()).push(job);
  }

  template <class Worker>
  caf::resumable* dequeue(Worker* self) {
    coordinator_data& queue = d(self->parent());
    caf::resumable* job = nullptr;
    d(self).lingers.look([&] { return (job = queue.try_pop()) != nullptr; });
    return job != nullptr ? job : queue.pop();
  }

  /// Workers hold no jobs of their own.
  template <class Worker, class Use>
  void foreach_resumable(Worker*, Use) {}
  template <class Coordinator, class Use>
  void foreach_central_resumable(Coordinator* self, Use use) {
    while (caf::resumable* const job = d(self).try_pop()) use(job);
  }
};

}  // namespace troupe::nodes
