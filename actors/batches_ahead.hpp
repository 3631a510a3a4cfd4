// The batches of a trainer's next steps, which threads of their own draw or read, check and plan, while the trainer
// computes. A batch is a function of its step and rank, so it makes no difference who makes it.

#pragma once

#include <boost/asio/thread_pool.hpp>
#include <caf/expected.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>

#include "actors/sparse_client.hpp"

namespace troupe::actors {

/// The threads of a process that make its trainers' batches. Thread: any.
class batch_threads {
 public:
  /// `trainers`: how many share the threads. `for_small`: they make small batches too, for which waking a thread takes
  /// longer than making them.
  batch_threads(std::size_t count, std::size_t trainers, bool for_small)
      : pool_(count), ahead_((count + trainers - 1) / trainers + 1), for_small_(for_small) {}

  boost::asio::thread_pool& pool() { return pool_; }
  /// How many batches a trainer has made ahead, of `numbers` indices and features each; 0: none.
  std::size_t ahead(std::uint64_t numbers) const {
    constexpr std::uint64_t few = 1 << 14;
    return for_small_ || numbers >= few ? ahead_ : 0;
  }

 private:
  boost::asio::thread_pool pool_;
  std::size_t ahead_;
  bool for_small_;
};

/// How many threads make batches.
struct batch_threads_wish {
  std::optional<std::size_t> count = {};  ///< null: the cores beyond those that trainers need
  std::size_t sharers = 1;                ///< processes that share the cores, each with as many trainers
};

/// Returns the threads for this process's trainers; null: they make their batches themselves.
std::shared_ptr<batch_threads> make_batch_threads(const batch_threads_wish& wish, std::size_t trainers);

/// Belongs to a trainer.
class batches_ahead {
 public:
  using batch = caf::expected<sparse_client::context>;
  /// Makes the batch of a step. Thread: any, for several steps at once.
  using maker = std::function<batch(std::uint64_t step)>;

  /// `threads`: null: none. `ahead`: how many batches. `make` must stay callable as long as this lives.
  batches_ahead(std::shared_ptr<batch_threads> threads, std::size_t ahead, maker make)
      : threads_(std::move(threads)), ahead_(threads_ ? ahead : 0), make_(std::move(make)) {}
  /// Waits for the batches that are being made.
  ~batches_ahead();
  batches_ahead(const batches_ahead&) = delete;
  batches_ahead& operator=(const batches_ahead&) = delete;

  /// Returns the batch of `step`; waits for it. Then has those of the next steps made, up to `last`.
  batch take(std::uint64_t step, std::uint64_t last);

 private:
  std::shared_ptr<batch_threads> threads_;
  std::size_t ahead_ = 0;
  maker make_;
  std::uint64_t next_ = 0;  ///< the step of the first one that is coming
  std::deque<std::future<batch>> coming_;
};

}  // namespace troupe::actors
