// Distributes the rows of a data set over the trainers.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "troupe/epoch_range.hpp"
#include "troupe/trainer.hpp"

namespace troupe {

/// Deals out rows 0 to n - 1, in another order every epoch: this trainer gets the positions rank, rank + trainers, ...
/// of the order. Every row occurs once in an epoch. All trainers have as many batches; the last may be short, or empty
/// for some, which take their step without a batch. A pure function of (seed, epoch, rank), so resuming needs no state.
class distributed_sampler {
 public:
  /// How rows are dealt out.
  struct options {
    /// Whether rows are shuffled; if not, they keep their order.
    bool shuffle = true;
  };

  /// Throws `error` if there are no rows, `batch_size` is 0, or one of the two is above 2^63 - 1.
  distributed_sampler(trainer me, std::uint64_t rows, std::size_t batch_size, options chosen);
  distributed_sampler(trainer me, std::uint64_t rows, std::size_t batch_size)
      : distributed_sampler(me, rows, batch_size, options()) {}

  /// The number of batches of an epoch, the same for every trainer.
  std::uint64_t steps_per_epoch() const { return steps_; }

  /// Returns this trainer's rows in a batch of an epoch. Throws `error` if the epoch has no such batch.
  std::vector<std::int64_t> rows(std::uint64_t epoch, std::uint64_t step) const;

  /// The batches of an epoch, each a vector of rows: see `trainer::batches`.
  epoch_range<distributed_sampler, &distributed_sampler::rows> epoch(std::uint64_t number) const;

 private:
  std::uint64_t rows_;
  std::size_t batch_size_;
  options options_;
  std::uint64_t seed_;
  std::uint32_t rank_;
  std::uint32_t trainers_;
  std::uint64_t steps_;
};

inline epoch_range<distributed_sampler, &distributed_sampler::rows> distributed_sampler::epoch(
    std::uint64_t number) const {
  return {*this, number};
}

}  // namespace troupe
