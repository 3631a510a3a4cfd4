#include "troupe/sampler.hpp"

#include <fmt/format.h>

#include "model/memory.hpp"
#include "model/sampler.hpp"
#include "troupe/error.hpp"

namespace troupe {

distributed_sampler::distributed_sampler(trainer me, std::uint64_t rows, std::size_t batch_size, options chosen)
    : rows_(rows),
      batch_size_(batch_size),
      options_(chosen),
      seed_(me.seed()),
      rank_(me.rank()),
      trainers_(me.trainers()),
      steps_(0) {
  if (rows == 0 || batch_size == 0)
    throw error(
        error_kind::input,
        fmt::format("distributed_sampler of {} rows in batches of {}: both must be at least 1", rows, batch_size));
  constexpr auto rows_max = static_cast<std::uint64_t>(INT64_MAX);  // row numbers are int64
  if (rows > rows_max || batch_size > rows_max)
    throw error(error_kind::input,
                fmt::format("distributed_sampler of {} rows in batches of {}: both must be at most {}", rows,
                            batch_size, rows_max));
  steps_ = model::sharded_sampler(rows_, trainers_, batch_size_, seed_).epochs().steps_until(1);
}

std::vector<std::int64_t> distributed_sampler::rows(std::uint64_t epoch, std::uint64_t step) const {
  if (step >= steps_)
    throw error(
        error_kind::input,
        fmt::format("distributed_sampler: batch {} of an epoch, which has the batches 0 to {}", step, steps_ - 1));
  if (epoch > (UINT64_MAX - step) / steps_)
    throw error(error_kind::input,
                fmt::format("distributed_sampler: epoch {}: with {} batches in each, at most {} can be", epoch, steps_,
                            (UINT64_MAX - step) / steps_));
  const auto share = model::sharded_sampler(rows_, trainers_, batch_size_, seed_).of(epoch * steps_ + step, rank_);
  constexpr std::uint64_t little_bytes = std::uint64_t{1} << 26;
  const std::uint64_t bytes = model::bounded_product(share.size(), sizeof(std::int64_t));
  if (bytes > little_bytes)
    if (const std::uint64_t available = model::available_memory(); bytes > available)
      throw error(
          error_kind::input,
          model::memory_fault(fmt::format("distributed_sampler: the numbers of a batch of {} rows", share.size()),
                              bytes, available, "try a smaller batch_size"));
  std::vector<std::int64_t> all(share.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<std::int64_t>(options_.shuffle ? share.row(i) : share.position(i));
  return all;
}

}  // namespace troupe
