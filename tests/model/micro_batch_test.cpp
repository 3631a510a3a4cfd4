// The split of a batch, against its definition: contiguous, in order, the first size % count parts one longer.

#include "model/micro_batch.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace troupe::model::micro_batch_test {
namespace {

TEST(MicroBatch, RunsOfNeighboursCoverTheBatchOnce) {
  for (std::size_t size = 0; size <= 40; ++size) {
    for (std::size_t count = 1; count <= 12; ++count) {
      std::vector<std::size_t> samples;
      for (std::size_t i = 0; i < count; ++i) {
        const auto [first, length] = micro_batch_of(size, count, i);
        EXPECT_EQ(length, size / count + (i < size % count ? 1 : 0)) << size << " in " << count;
        EXPECT_EQ(length > 0, i < micro_batches_with_samples(size, count)) << size << " in " << count;
        for (std::size_t sample = first; sample < first + length; ++sample) samples.push_back(sample);
      }
      std::vector<std::size_t> all(size);
      std::iota(all.begin(), all.end(), std::size_t{0});
      EXPECT_EQ(samples, all) << size << " in " << count;
    }
  }
}

}  // namespace
}  // namespace troupe::model::micro_batch_test
