// Loops of a trainer function; a resumed run enters them at the saved iteration.

#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <ranges>
#include <type_traits>
#include <utility>

namespace troupe {

namespace runtime {
class trainer_runtime;

/// The position of a loop, from its beginning to its end.
class loop_place {
 public:
  explicit loop_place(trainer_runtime& of);
  /// `n`: the number of iterations.
  loop_place(trainer_runtime& of, std::uint64_t n);
  loop_place(const loop_place&) = delete;
  loop_place& operator=(const loop_place&) = delete;
  ~loop_place();

  /// Called when the first iteration begins. Returns how many iterations to skip.
  std::uint64_t enter();
  /// Called when an iteration has ended.
  void advance();

 private:
  trainer_runtime* runtime_;
  std::uint64_t done_ = 0;
};

/// Batches of a loop, which idle threads, or threads started for that (`--prepare`), make ahead of it.
class prefetcher {
 public:
  /// Makes the batch of a step. Thread: any; called for several steps at once.
  using maker = std::function<std::shared_ptr<void>(std::uint64_t step)>;

  /// `numbers`: about how many numbers a batch has: idle threads are not woken for few.
  prefetcher(const trainer_runtime& of, std::uint64_t numbers, maker make);
  prefetcher(const prefetcher&) = delete;
  prefetcher& operator=(const prefetcher&) = delete;
  /// Waits for the batches that are being made.
  ~prefetcher();

  /// Returns the batch of `step`, or throws the exception of its maker. Starts making those of the next steps, up to
  /// `last`.
  std::shared_ptr<void> take(std::uint64_t step, std::uint64_t last);

 private:
  class batches;
  std::unique_ptr<batches> batches_;
};

}  // namespace runtime

/// The numbers 0 to n - 1; see `trainer::steps`.
class step_loop {
 public:
  step_loop(runtime::trainer_runtime& of, std::uint64_t n) : place_(of, n), end_(n) {}

  class iterator {
   public:
    explicit iterator(step_loop& of) : loop_(&of), at_(std::min(of.place_.enter(), of.end_)) {}
    std::uint64_t operator*() const { return at_; }
    iterator& operator++() {
      ++at_;
      loop_->place_.advance();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return at_ == loop_->end_; }

   private:
    step_loop* loop_;
    std::uint64_t at_;
  };

  iterator begin() { return iterator(*this); }
  static std::default_sentinel_t end() { return {}; }

 private:
  runtime::loop_place place_;
  std::uint64_t end_;
};

/// The elements of a range; see `trainer::batches`.
template <class Range>
class batch_loop {
 public:
  batch_loop(runtime::trainer_runtime& of, Range&& range) : range_(std::forward<Range>(range)), place_(of) {}

  class iterator {
   public:
    explicit iterator(batch_loop& of) : loop_(&of), at_(std::ranges::begin(of.range_)) {
      for (std::uint64_t left = of.place_.enter(); left > 0 && at_ != std::ranges::end(of.range_); --left) ++at_;
    }
    decltype(auto) operator*() const { return *at_; }
    iterator& operator++() {
      ++at_;
      loop_->place_.advance();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return at_ == std::ranges::end(loop_->range_); }

   private:
    batch_loop* loop_;
    std::ranges::iterator_t<std::remove_reference_t<Range>> at_;
  };

  iterator begin() { return iterator(*this); }
  static std::default_sentinel_t end() { return {}; }

 private:
  Range range_;  // a reference if the range is an lvalue
  runtime::loop_place place_;
};

/// The results of a function for the numbers 0 to n - 1; see `trainer::prefetch`.
template <class Batch>
class prefetch_loop {
 public:
  /// `numbers`: about how many numbers a batch has.
  prefetch_loop(runtime::trainer_runtime& of, std::uint64_t n, std::function<Batch(std::uint64_t)> make,
                std::uint64_t numbers)
      : steps_(of, n), last_(n - 1), batches_(of, numbers, [make = std::move(make)](std::uint64_t step) {
          return std::make_shared<Batch>(make(step));
        }) {}

  class iterator {
   public:
    explicit iterator(prefetch_loop& of) : loop_(&of), at_(of.steps_.begin()) {}
    /// Moves the batch out: call it once for each step.
    Batch operator*() const { return std::move(*static_cast<Batch*>(loop_->batches_.take(*at_, loop_->last_).get())); }
    iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(std::default_sentinel_t end) const { return at_ == end; }

   private:
    prefetch_loop* loop_;
    step_loop::iterator at_;
  };

  iterator begin() { return iterator(*this); }
  static std::default_sentinel_t end() { return {}; }

 private:
  step_loop steps_;
  std::uint64_t last_;  ///< unused if there are no steps
  runtime::prefetcher batches_;
};

}  // namespace troupe
