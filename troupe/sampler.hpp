// Distributes the rows of a data set over the trainers.

#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include "troupe/trainer.hpp"

namespace troupe {

/// Deals out rows 0 to n - 1, every epoch in another order: this trainer gets positions rank, rank + trainers, ... of
/// it. Every row occurs once in an epoch. All trainers have as many batches; the last may be short, or empty for some
/// of them: these take their step without a batch. A pure function of (seed, epoch, rank), so resuming needs no state.
class distributed_sampler {
 public:
  /// How it deals.
  struct options {
    /// Otherwise rows come in their order.
    bool shuffle = true;
  };

  /// Throws `error` if there are no rows, or `batch_size` is 0.
  distributed_sampler(trainer me, std::uint64_t rows, std::size_t batch_size, options chosen);
  distributed_sampler(trainer me, std::uint64_t rows, std::size_t batch_size)
      : distributed_sampler(me, rows, batch_size, options()) {}

  /// The batches of an epoch, of every trainer.
  std::uint64_t steps_per_epoch() const { return steps_; }

  /// Returns this trainer's rows in a batch of an epoch.
  std::vector<std::int64_t> rows(std::uint64_t epoch, std::uint64_t step) const;

  /// The batches of an epoch, each a vector of rows: see `trainer::batches`.
  class epoch_range {
   public:
    class iterator {
     public:
      using value_type = std::vector<std::int64_t>;
      using difference_type = std::ptrdiff_t;

      iterator() = default;
      explicit iterator(const epoch_range& of) : range_(&of) {}
      value_type operator*() const { return range_->sampler_->rows(range_->epoch_, step_); }
      iterator& operator++() {
        ++step_;
        return *this;
      }
      void operator++(int) { ++step_; }
      bool operator==(std::default_sentinel_t) const { return step_ == range_->sampler_->steps_per_epoch(); }

     private:
      const epoch_range* range_ = nullptr;
      std::uint64_t step_ = 0;
    };

    iterator begin() const { return iterator(*this); }
    static std::default_sentinel_t end() { return {}; }

   private:
    friend class distributed_sampler;
    epoch_range(const distributed_sampler& of, std::uint64_t epoch) : sampler_(&of), epoch_(epoch) {}

    const distributed_sampler* sampler_;
    std::uint64_t epoch_;
  };

  /// Requires: this sampler outlives the range.
  epoch_range epoch(std::uint64_t number) const { return {*this, number}; }

 private:
  std::uint64_t rows_;
  std::size_t batch_size_;
  options options_;
  std::uint64_t seed_;
  std::uint32_t rank_;
  std::uint32_t trainers_;
  std::uint64_t steps_;
};

}  // namespace troupe
