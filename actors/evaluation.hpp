// One rank's share of the test rows. The ranks take chunks of them in turn, so that they read a file together. The
// caller reads the rows and scores the outputs, with a function of a batch.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "model/metrics.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// Belongs to one thread.
class test_share {
 public:
  /// Adds the rows of a batch to the counts; `outputs` [size, out_features] are the network's for them.
  using scorer = std::function<void(const model::batch& samples, const float* outputs, model::predictions& counts)>;

  struct chunk {
    std::uint64_t first = 0;
    std::uint64_t count = 0;
  };

  test_share() = default;
  /// The share of `rank` among `ranks`, of `rows` test rows.
  test_share(std::uint32_t rank, std::uint32_t ranks, std::uint64_t rows, scorer score)
      : rank_(rank), ranks_(ranks), rows_(rows), score_(std::move(score)) {}

  /// Starts over.
  void begin();
  /// Returns the rows to score next; none when this rank has scored all of its rows.
  std::optional<chunk> next();
  void score(const model::batch& samples, const float* outputs) { score_(samples, outputs, counts_); }
  /// The counts, without header, rank and epoch.
  msg::evaluation report();

 private:
  std::uint32_t rank_ = 0;
  std::uint32_t ranks_ = 1;
  std::uint64_t rows_ = 0;
  scorer score_;
  std::uint64_t next_ = 0;
  model::predictions counts_;
};

}  // namespace troupe::actors
