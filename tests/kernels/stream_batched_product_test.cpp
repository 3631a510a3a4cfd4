// A stream's batched matrix products against sums in double, in each form and precision.

#include <cmath>
#include <vector>

#include "tests/kernels/stream_support.hpp"

namespace troupe::kernels::test::stream_batched_product_test {
namespace {

constexpr auto plain = factor_form::plain;
constexpr auto transposed = factor_form::transposed;

/// Returns an element of matrix number i [rows, cols], stored in this form.
double at(const std::vector<float>& all, factor_form form, std::size_t i, std::size_t rows, std::size_t cols,
          std::size_t row, std::size_t col) {
  return static_cast<double>(all[i * rows * cols + (form == plain ? row * cols + col : col * rows + row)]);
}

template <class Place>
class StreamBatchedProduct : public stream_test<Place> {
 protected:
  /// `error`: relative error of a factor.
  void expect_products(stream& on, const batched_product_shape& shape, double error) {
    const auto [count, m, n, k, a_form, b_form] = shape;
    SCOPED_TRACE(testing::Message() << count << " x [" << m << ", " << k << "] [" << k << ", " << n << "], forms "
                                    << (a_form == plain) << (b_form == plain));
    source_of_numbers random(static_cast<std::uint32_t>(m * 100 + n * 10 + k));
    const auto a = random.numbers(count * m * k);
    const auto b = random.numbers(count * k * n);
    const auto device_a = this->put(a);
    const auto device_b = this->put(b);
    const auto device_product = this->template buffer<float>(count * m * n);
    on.batched_product(shape, device_a.data(), device_b.data(), device_product.data());
    on.synchronize();
    const auto product = this->get(device_product);
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t row = 0; row < m; ++row)
        for (std::size_t col = 0; col < n; ++col) {
          double sum = 0;
          double magnitude = 0;
          for (std::size_t j = 0; j < k; ++j) {
            const double term = at(a, a_form, i, m, k, row, j) * at(b, b_form, i, k, n, j, col);
            sum += term;
            magnitude += std::abs(term);
          }
          ASSERT_NEAR(product[(i * m + row) * n + col], sum,
                      magnitude * (2 * error + rounding * static_cast<double>(k + 2)))
              << i << ": " << row << ", " << col;
        }
  }
};
TYPED_TEST_SUITE(StreamBatchedProduct, each_device, device_names);

TYPED_TEST(StreamBatchedProduct, IsTheProductOfEachPair) {
  const std::size_t sizes[][4] = {{1, 1, 1, 1},   {2, 3, 1, 5},    {3, 7, 7, 4},
                                  {5, 8, 16, 24}, {3, 33, 65, 40}, {0, 2, 3, 4}};
  for (const auto& [count, m, n, k] : sizes)
    for (const auto a : {plain, transposed})
      for (const auto b : {plain, transposed}) this->expect_products(this->on(), {count, m, n, k, a, b}, rounding);
}

TYPED_TEST(StreamBatchedProduct, RoundsFactorsInBf16IfTheDeviceCan) {
  if (this->device().is_host()) {
    EXPECT_THROW(this->device().make_stream(matmul_precision::bf16), device_error);
    return;
  }
  const auto on = this->device().make_stream(matmul_precision::bf16);
  for (const auto a : {plain, transposed})
    for (const auto b : {plain, transposed}) {
      this->expect_products(*on, {3, 8, 16, 24, a, b}, 1.0 / (1 << 8));
      this->expect_products(*on, {3, 8, 15, 24, a, b}, 1.0 / (1 << 8));  // bf16 falls back to tf32 for these
    }
}

}  // namespace
}  // namespace troupe::kernels::test::stream_batched_product_test
