// The batches of an epoch as a range, for sources that return a batch by its number.

#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <utility>

namespace troupe {

/// The batches of an epoch in order: see `trainer::batches`. `Batch`: the member function of `Source` that returns one
/// of them by epoch and step. Holds a copy of the source.
template <class Source, auto Batch>
class epoch_range {
 public:
  epoch_range(Source of, std::uint64_t epoch) : source_(std::move(of)), epoch_(epoch) {}

  class iterator {
   public:
    using value_type = std::invoke_result_t<decltype(Batch), const Source&, std::uint64_t, std::uint64_t>;
    using difference_type = std::ptrdiff_t;

    iterator() = default;
    explicit iterator(const epoch_range& of) : range_(&of) {}
    value_type operator*() const { return range_->batch(step_); }
    iterator& operator++() {
      ++step_;
      return *this;
    }
    void operator++(int) { ++step_; }
    bool operator==(std::default_sentinel_t) const { return step_ == range_->size(); }

   private:
    const epoch_range* range_ = nullptr;
    std::uint64_t step_ = 0;
  };

  iterator begin() const { return iterator(*this); }
  static std::default_sentinel_t end() { return {}; }

  /// Access by number.
  std::uint64_t size() const { return source_.steps_per_epoch(); }
  auto batch(std::uint64_t step) const { return (source_.*Batch)(epoch_, step); }

  const Source& source() const { return source_; }

 private:
  Source source_;
  std::uint64_t epoch_;
};

}  // namespace troupe
