// Loops of a trainer function that a resumed run enters where the saved one was.

#pragma once

#include <cstdint>
#include <iterator>
#include <ranges>
#include <type_traits>
#include <utility>

namespace troupe {

namespace runtime {
class trainer_runtime;

/// The place of a loop, from its beginning to its end.
class loop_place {
 public:
  explicit loop_place(trainer_runtime& of);
  loop_place(const loop_place&) = delete;
  loop_place& operator=(const loop_place&) = delete;
  ~loop_place();

  /// Iterations that are not to be done again.
  std::uint64_t done() const { return done_; }
  /// An iteration has ended.
  void advance();

 private:
  trainer_runtime* runtime_;
  std::uint64_t done_ = 0;
};

}  // namespace runtime

/// The numbers 0 to n - 1; see `trainer::steps`.
class step_loop {
 public:
  step_loop(runtime::trainer_runtime& of, std::uint64_t n) : place_(of), end_(n) {}

  class iterator {
   public:
    explicit iterator(step_loop& of) : loop_(&of), at_(of.place_.done() < of.end_ ? of.place_.done() : of.end_) {}
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
      for (std::uint64_t i = 0; i < of.place_.done() && at_ != std::ranges::end(of.range_); ++i) ++at_;
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

}  // namespace troupe
