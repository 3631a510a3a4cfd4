// The batches of a trainer's next steps, which other threads draw or read, check and plan while the trainer computes. A
// batch is a function of its step and rank, so the thread that makes it does not matter.

#pragma once

#include <algorithm>
#include <atomic>
#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <utility>

namespace troupe::actors {

/// The threads that make batches for a process's trainers. Thread: any.
class batch_threads {
 public:
  /// `own`: the number of threads of its own; 0: the process's idle threads (kernels/idle_threads.hpp) make batches if
  /// these are large. `ahead`: how many batches are made ahead for each trainer.
  batch_threads(std::size_t own, std::size_t ahead);

  /// Has a free thread call `make`. Without threads of its own, perhaps no thread does.
  void post(std::function<void()> make);

  /// How many batches, of `numbers` indices and features each, a trainer has made ahead; 0: none.
  std::size_t ahead(std::uint64_t numbers) const {
    constexpr std::uint64_t few = 1 << 14;  // making so few takes less time than waking a thread
    return pool_ || numbers >= few ? ahead_ : 0;
  }

 private:
  std::optional<boost::asio::thread_pool> pool_;
  std::size_t ahead_;
};

/// How many threads make batches.
struct batch_threads_request {
  std::optional<std::size_t> count = {};  ///< null: idle threads make them
  std::size_t sharers = 1;                ///< processes that share the cores, each with as many trainers
};

/// Returns how many large batches are made ahead for each of a process's trainers; 0: none.
std::size_t batches_made_ahead(const batch_threads_request& request, std::size_t trainers);

/// Returns the threads for this process's trainers; null: they make their own batches.
std::shared_ptr<batch_threads> make_batch_threads(const batch_threads_request& request, std::size_t trainers);

/// Belongs to a trainer. `Batch`: the type of a step's batch.
template <class Batch>
class batches_ahead {
 public:
  /// Makes the batch of a step. Thread: any, for several steps at once.
  using maker = std::function<Batch(std::uint64_t step)>;

  /// `threads` may be null. `ahead`: how many batches. Requires: `make` stays callable while this object lives.
  batches_ahead(std::shared_ptr<batch_threads> threads, std::size_t ahead, maker make)
      : threads_(std::move(threads)), ahead_(threads_ ? ahead : 0), make_(std::move(make)) {}
  /// Waits for the batches that are being made.
  ~batches_ahead() {
    for (const auto& one : coming_) one->drop();
  }
  batches_ahead(const batches_ahead&) = delete;
  batches_ahead& operator=(const batches_ahead&) = delete;

  /// Returns the batch of `step`: makes it unless a thread has begun to, else waits for it. Offers the batches of the
  /// next steps, up to `last`, to other threads.
  Batch take(std::uint64_t step, std::uint64_t last) {
    if (ahead_ == 0) return make_(step);
    for (; !coming_.empty() && next_ != step; ++next_) {  // after a resume, or in an unexpected order
      coming_.front()->drop();
      coming_.pop_front();
    }
    if (coming_.empty()) next_ = step;
    for (std::uint64_t wanted = next_ + coming_.size(); wanted <= std::min(last, step + ahead_); ++wanted) {
      const auto one = std::make_shared<coming>([this, wanted] { return make_(wanted); });
      coming_.push_back(one);
      if (wanted > step) threads_->post([one] { one->make(); });
    }
    const auto first = std::move(coming_.front());
    coming_.pop_front();
    ++next_;
    return first->get();
  }

 private:
  /// A batch that one thread makes. Thread: any.
  class coming {
   public:
    explicit coming(std::function<Batch()> how) : how_(std::move(how)) {}

    /// Makes the batch, unless another thread does or `drop` was called.
    void make() {
      if (!begun_.exchange(true)) how_();
    }
    Batch get() {
      make();
      return made_.get();
    }
    /// Ensures that no thread makes it from now on.
    void drop() {
      if (begun_.exchange(true)) made_.wait();
    }

   private:
    std::atomic<bool> begun_ = false;
    std::packaged_task<Batch()> how_;
    std::future<Batch> made_ = how_.get_future();
  };

  std::shared_ptr<batch_threads> threads_;
  std::size_t ahead_ = 0;
  maker make_;
  std::uint64_t next_ = 0;  ///< the step of the first one in `coming_`
  std::deque<std::shared_ptr<coming>> coming_;
};

}  // namespace troupe::actors
