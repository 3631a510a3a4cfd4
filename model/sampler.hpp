// Sampling: distributes the rows of an epoch over the ranks, in a pseudo-random order.

#pragma once

#include <cstddef>
#include <cstdint>

#include "model/random.hpp"

namespace troupe::model {

/// Distributes `rows` rows over `ranks` ranks, reshuffled every epoch: rank r takes positions r, r + ranks, r +
/// 2*ranks, ... of the epoch's permutation, `batch_size` in each step. Its last batch of an epoch may be short, and
/// later steps empty. Guarantees: every row occurs once in an epoch. Stateless. Thread: any.
class sharded_sampler {
 public:
  /// Requires: all arguments but `seed` are at least 1.
  sharded_sampler(std::uint64_t rows, std::uint64_t ranks, std::uint64_t batch_size, std::uint64_t seed)
      : rows_(rows), ranks_(ranks), batch_size_(batch_size), seed_(seed) {}

  /// Returns the batches of the rank with the most rows.
  std::uint64_t steps_per_epoch() const { return (rows_of(0) + batch_size_ - 1) / batch_size_; }

  /// The rows of a rank in a step.
  class share {
   public:
    std::size_t size() const { return size_; }

    /// Returns the row number of sample `i`, i < size().
    std::uint64_t row(std::size_t i) const { return shuffled(rows_, key_, position(i)); }

    /// Returns its position in the epoch, for data sets with another shuffling.
    std::uint64_t position(std::size_t i) const { return first_ + i * stride_; }

   private:
    friend class sharded_sampler;
    std::uint64_t rows_ = 0;
    std::uint64_t key_ = 0;
    std::uint64_t first_ = 0;
    std::uint64_t stride_ = 0;
    std::size_t size_ = 0;
  };

  /// Returns the rows of `rank` in global step `step` (from 0).
  share of(std::uint64_t step, std::uint64_t rank) const {
    const std::uint64_t epoch = step / steps_per_epoch();
    const std::uint64_t taken = step % steps_per_epoch() * batch_size_;
    const std::uint64_t total = rows_of(rank);
    share result;
    result.rows_ = rows_;
    result.key_ = random_key(seed_, random_stream::shuffle, epoch);
    result.first_ = rank + taken * ranks_;
    result.stride_ = ranks_;
    result.size_ = static_cast<std::size_t>(total <= taken                ? 0
                                            : total - taken < batch_size_ ? total - taken
                                                                          : batch_size_);
    return result;
  }

 private:
  std::uint64_t rows_of(std::uint64_t rank) const { return rank < rows_ ? (rows_ - rank + ranks_ - 1) / ranks_ : 0; }

  std::uint64_t rows_;
  std::uint64_t ranks_;
  std::uint64_t batch_size_;
  std::uint64_t seed_;
};

}  // namespace troupe::model
