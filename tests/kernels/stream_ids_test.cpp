// Rows of a table by ids stored as numbers, and their gradient, in the same order on every device.

#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/stream_support.hpp"

namespace troupe::kernels::test::stream_ids_test {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

template <class Place>
class StreamIds : public stream_test<Place> {};
TYPED_TEST_SUITE(StreamIds, each_device, device_names);

std::vector<float> some_ids(source_of_numbers& random, std::size_t count, std::size_t rows) {
  std::vector<float> ids(count);
  for (float& id : ids) id = static_cast<float>(random.below(rows));
  return ids;
}

TYPED_TEST(StreamIds, CopyTheirRowsAndAddTheirGradientsInOrder) {
  for (const std::size_t rows : {1, 5, 300}) {
    for (const std::size_t dim : {1, 3, 8, 33, 70}) {
      for (const std::size_t count : {0, 1, 2, 61}) {
        SCOPED_TRACE(testing::Message() << rows << " x " << dim << ", " << count << " ids");
        source_of_numbers random(static_cast<std::uint32_t>(rows + dim + count));
        const auto ids = some_ids(random, count, rows);
        const auto table = random.numbers(rows * dim);
        const auto grad_y = random.numbers(count * dim);
        std::vector<float> y;
        std::vector<float> grad(rows * dim);
        for (std::size_t i = 0; i < count; ++i) {
          const auto row = static_cast<std::size_t>(ids[i]);
          for (std::size_t c = 0; c < dim; ++c) {
            y.push_back(table[row * dim + c]);
            grad[row * dim + c] += grad_y[i * dim + c];
          }
        }
        const auto ids_there = this->put(ids);
        const auto y_there = this->put(std::vector<float>(count * dim, nan));
        const auto grad_there = this->put(std::vector<float>(rows * dim, nan));
        const auto table_there = this->put(table);
        const auto grad_y_there = this->put(grad_y);
        this->on().embedding_forward(count, rows, dim, ids_there.data(), table_there.data(), y_there.data());
        this->on().embedding_backward(count, rows, dim, ids_there.data(), grad_y_there.data(), grad_there.data());
        EXPECT_TRUE(same_bits(this->get(y_there), y));
        EXPECT_TRUE(same_bits(this->get(grad_there), grad));
      }
    }
  }
}

TYPED_TEST(StreamIds, ThatNameNoRowGiveNanAndHaveNoPartInTheGradient) {
  const std::vector<float> ids = {2, -1, 0.5F, 3, nan, 1e30F, -std::numeric_limits<float>::infinity(), 1};
  const std::vector<float> table = {10, 20, 30};
  const auto ids_there = this->put(ids);
  const auto y_there = this->put(std::vector<float>(ids.size(), 0.0F));
  const auto grad_there = this->put(std::vector<float>(3, nan));
  const auto table_there = this->put(table);
  const auto grad_y_there = this->put(std::vector<float>(ids.size(), 1.0F));
  this->on().embedding_forward(ids.size(), 3, 1, ids_there.data(), table_there.data(), y_there.data());
  this->on().embedding_backward(ids.size(), 3, 1, ids_there.data(), grad_y_there.data(), grad_there.data());
  const auto y = this->get(y_there);
  EXPECT_EQ(y.front(), 30);
  EXPECT_EQ(y.back(), 20);
  for (std::size_t i = 1; i + 1 < y.size(); ++i) EXPECT_TRUE(std::isnan(y[i])) << ids[i];
  EXPECT_EQ(this->get(grad_there), (std::vector<float>{0, 1, 1}));
}

}  // namespace
}  // namespace troupe::kernels::test::stream_ids_test
