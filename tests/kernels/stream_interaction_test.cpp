// A stream's pairwise dots and their gradients, bitwise: their order is the same on every device.

#include <cmath>

#include "kernels/interaction.hpp"
#include "tests/kernels/stream_support.hpp"

namespace troupe::kernels::test::stream_interaction_test {
namespace {

template <class Place>
class StreamInteraction : public stream_test<Place> {
 protected:
  /// Views of vectors side by side in the rows of a device matrix.
  template <class T>
  static std::vector<row_matrix<T>> side_by_side(const device_array<float>& matrix, std::size_t count,
                                                 std::size_t dim) {
    std::vector<row_matrix<T>> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back({matrix.data() + i * dim, count * dim});
    return all;
  }
};
TYPED_TEST_SUITE(StreamInteraction, each_device, device_names);

/// Index of pair (i, j), in either order.
std::size_t pair_number(std::size_t i, std::size_t j) { return i > j ? pair_count(i) + j : pair_count(j) + i; }

TYPED_TEST(StreamInteraction, DotsAndGradientsHaveTheBitsOfFusedSumsInOrder) {
  for (const std::size_t n : {2, 3, 4, 5, 9, 27, 34, 256}) {
    for (const std::size_t dim : {1, 3, 16, 33, 130}) {
      for (const std::size_t batch : {0, 1, 9}) {
        if (n == 256 && (dim > 16 || batch > 1)) continue;
        SCOPED_TRACE(std::to_string(batch) + " samples of " + std::to_string(n) + " x " + std::to_string(dim));
        source_of_numbers random(static_cast<std::uint32_t>(n * 1000 + dim));
        const std::vector<float> x = random.numbers(batch * n * dim);
        const std::size_t stride = pair_count(n) + 2;
        const std::vector<float> grad_dots = random.numbers(batch * stride);
        const auto vectors = this->put(x);
        const auto device_grad_dots = this->put(grad_dots);
        const auto dots = this->template buffer<float>(batch * stride);
        const auto grad_x = this->template buffer<float>(x.size());
        const auto views = this->template side_by_side<const float>(vectors, n, dim);
        this->on().fill(dots.size(), 7.0F, dots.data());
        this->on().pairwise_dots(batch, dim, views, {dots.data(), stride});
        this->on().pairwise_dots_backward(batch, dim, views, {device_grad_dots.data(), stride},
                                          this->template side_by_side<float>(grad_x, n, dim));
        std::vector<float> expected_dots(batch * stride, 7.0F);
        std::vector<float> expected_grad(x.size());
        for (std::size_t b = 0; b < batch; ++b) {
          for (std::size_t i = 0; i < n; ++i) {
            const float* const row = &x[(b * n + i) * dim];
            for (std::size_t j = 0; j < i; ++j) {
              float sum = 0;
              for (std::size_t d = 0; d < dim; ++d) sum = std::fma(row[d], x[(b * n + j) * dim + d], sum);
              expected_dots[b * stride + pair_number(i, j)] = sum;
            }
            for (std::size_t d = 0; d < dim; ++d) {
              float sum = 0;
              for (std::size_t j = 0; j < n; ++j) {
                const float factor = i == j ? 0.0F : grad_dots[b * stride + pair_number(i, j)];
                sum = std::fma(factor, x[(b * n + j) * dim + d], sum);
              }
              expected_grad[(b * n + i) * dim + d] = sum;
            }
          }
        }
        ASSERT_TRUE(same_bits(this->get(dots), expected_dots));
        ASSERT_TRUE(same_bits(this->get(grad_x), expected_grad));
      }
    }
  }
}

TYPED_TEST(StreamInteraction, AVectorThatIsNotFiniteHasANanGradient) {
  std::vector<float> x(3 * 8, 1.0F);
  x[8] = std::nanf("");
  const auto vectors = this->put(x);
  const auto grad_dots = this->put(std::vector<float>(3, 1.0F));
  const auto grad_x = this->template buffer<float>(x.size());
  this->on().pairwise_dots_backward(1, 8, this->template side_by_side<const float>(vectors, 3, 8),
                                    {grad_dots.data(), 3}, this->template side_by_side<float>(grad_x, 3, 8));
  const std::vector<float> got = this->get(grad_x);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(got[i * 8])) << i;
  EXPECT_EQ(got[1], 2.0F);
}

TYPED_TEST(StreamInteraction, ACudaDeviceRefusesTooManyVectors) {
  if (this->device().is_host()) GTEST_SKIP() << "skipped: the processor takes any number";
  const std::vector<row_matrix<const float>> vectors(interaction_vectors_max + 1);
  EXPECT_THROW(this->on().pairwise_dots(1, 1, vectors, {}), device_error);
}

}  // namespace
}  // namespace troupe::kernels::test::stream_interaction_test
