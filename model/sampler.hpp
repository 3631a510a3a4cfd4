// Sampling: distributes the rows of an epoch over the ranks, in a pseudo-random order.

#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "model/epoch_plan.hpp"
#include "model/random.hpp"

namespace troupe::model {

/// Distributes the rows of an epoch, reshuffled every epoch: of a step's rows in the epoch's permutation, rank r has
/// the r-th and then every n-th, with n ranks. In an epoch's last step ranks may have fewer, or none. Guarantees: every
/// row occurs once in an epoch. Stateless. Thread: any.
class sharded_sampler {
 public:
  sharded_sampler(epoch_plan epochs, std::uint64_t seed) : epochs_(std::move(epochs)), seed_(seed) {}
  /// For `ranks` ranks with `batch_size` rows each in a step. Requires: all arguments but `seed` are at least 1.
  sharded_sampler(std::uint64_t rows, std::uint32_t ranks, std::uint64_t batch_size, std::uint64_t seed)
      : sharded_sampler(
            epoch_plan(rows, {{.trainers = ranks, .samples = batch_size > rows / ranks ? rows : ranks * batch_size}}),
            seed) {}

  const epoch_plan& epochs() const { return epochs_; }

  /// The rows of a rank in a step.
  class share {
   public:
    std::size_t size() const { return size_; }

    /// Returns the row number of sample `i`, i < size().
    std::uint64_t row(std::size_t i) const { return shuffled(rows_, key_, position(i)); }

    /// Returns the sample's position in the epoch, for data sets with another shuffling.
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
    const epoch_plan::place at = epochs_.of(step);
    share result;
    result.rows_ = epochs_.epoch_samples();
    result.key_ = random_key(seed_, random_stream::shuffle, at.epoch);
    result.first_ = at.first + rank;
    result.stride_ = at.trainers;
    result.size_ = static_cast<std::size_t>(at.size_of(rank));
    return result;
  }

 private:
  epoch_plan epochs_;
  std::uint64_t seed_;
};

}  // namespace troupe::model
