// A stream's elementwise kernels and reductions: exact ones bitwise, sums against double.

#include <cmath>
#include <limits>

#include "tests/kernels/stream_support.hpp"

namespace troupe::kernels::test::stream_elementwise_test {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

template <class Place>
class StreamElementwise : public stream_test<Place> {};
TYPED_TEST_SUITE(StreamElementwise, each_device, device_names);

TYPED_TEST(StreamElementwise, FillsAndMultiplies) {
  for (const std::size_t count : odd_sizes) {
    for (const std::size_t before : {0, 1}) {
      source_of_numbers random(static_cast<std::uint32_t>(count));
      std::vector<float> numbers = random.numbers(count);
      const auto x = this->put(numbers, before);
      this->on().multiply(count, 0.3F, x.data() + before);
      for (float& number : numbers) number *= 0.3F;
      ASSERT_TRUE(same_bits(this->get(x.data() + before, count), numbers));
      this->on().fill(count - 1, -1.5F, x.data() + before);
      const auto got = this->get(x.data() + before, count);
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(got[i], i + 1 < count ? -1.5F : numbers[i]);
    }
  }
  this->on().fill(0, 1.0F, nullptr);
  this->on().multiply(0, 1.0F, nullptr);
  this->on().synchronize();
}

TYPED_TEST(StreamElementwise, CopiesAndAddsColumnsOfWiderMatrices) {
  constexpr std::size_t rows = 5;
  for (const std::size_t cols : odd_sizes) {
    for (const std::size_t wider : {0, 3, 4}) {
      source_of_numbers random(static_cast<std::uint32_t>(cols));
      const std::size_t from_stride = cols + wider;
      const std::size_t to_stride = cols + 2 * wider;
      const std::vector<float> from = random.numbers(rows * from_stride);
      std::vector<float> expected = random.numbers(rows * to_stride);
      const auto device_from = this->put(from);
      const auto device_to = this->put(expected);
      const row_matrix<float> to{device_to.data() + wider, to_stride};
      this->on().copy_columns(rows, cols, {device_from.data() + wider, from_stride}, to);
      this->on().add_columns(rows, cols, {device_from.data(), from_stride}, to);
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < cols; ++c) {
          const float copied = r * from_stride + wider + c < from.size() ? from[r * from_stride + wider + c] : 0.0F;
          expected[r * to_stride + wider + c] = copied + from[r * from_stride + c];
        }
      }
      // Omits the last row of a narrower matrix, which would end past the buffer.
      const std::size_t compared = wider == 0 ? rows : rows - 1;
      auto got = this->get(device_to);
      got.resize(compared * to_stride);
      expected.resize(compared * to_stride);
      ASSERT_TRUE(same_bits(got, expected)) << cols << " of " << from_stride;
    }
  }
}

TYPED_TEST(StreamElementwise, CutsOffWhatIsBelowZero) {
  for (const std::size_t count : odd_sizes) {
    source_of_numbers random(static_cast<std::uint32_t>(count));
    std::vector<float> x = random.numbers(count);
    x[0] = nan;
    x[count / 2] = -0.0F;
    std::vector<float> expected(count);
    for (std::size_t i = 0; i < count; ++i) expected[i] = x[i] < 0 ? 0.0F : x[i];
    for (const std::size_t before : {0, 3}) {
      const auto device_x = this->put(x, before);
      this->on().relu_forward(count, device_x.data() + before, device_x.data() + before);
      ASSERT_TRUE(same_bits(this->get(device_x.data() + before, count), expected));
    }
  }
}

TYPED_TEST(StreamElementwise, PassesGradientsWhereReluWasActive) {
  for (const std::size_t count : odd_sizes) {
    source_of_numbers random(static_cast<std::uint32_t>(count));
    std::vector<float> y = random.numbers(count);
    y[0] = nan;
    y[count / 2] = -0.0F;
    const std::vector<float> grad = random.numbers(count);
    std::vector<float> expected(count);
    for (std::size_t i = 0; i < count; ++i) expected[i] = y[i] > 0 ? grad[i] : 0.0F;
    for (const std::size_t before : {0, 3}) {
      const auto device_y = this->put(y, before);
      const auto device_grad = this->put(grad, before);
      this->on().relu_backward(count, device_y.data() + before, device_grad.data() + before,
                               device_grad.data() + before);
      ASSERT_TRUE(same_bits(this->get(device_grad.data() + before, count), expected));
    }
  }
}

TYPED_TEST(StreamElementwise, SumsInRankOrder) {
  for (const std::size_t ranks : {1, 2, 3, 255, 256, 257, 600}) {
    for (const std::size_t count : {1, 4, 7, 33}) {
      source_of_numbers random(static_cast<std::uint32_t>(ranks * 100 + count));
      const std::size_t stride = count + ranks % 2;
      const std::vector<float> numbers = random.numbers(ranks * stride);
      std::vector<float> expected(count);
      for (std::size_t i = 0; i < count; ++i) {
        float sum = numbers[i];
        for (std::size_t rank = 1; rank < ranks; ++rank) sum += numbers[rank * stride + i];
        expected[i] = 0.3F * sum;
      }
      // Output to a separate buffer, and to the last input.
      for (const bool in_place : {false, true}) {
        const auto in = this->put(numbers);
        const auto out = this->template buffer<float>(count);
        std::vector<const float*> pointers;
        for (std::size_t rank = 0; rank < ranks; ++rank) pointers.push_back(in.data() + rank * stride);
        float* const to = in_place ? in.data() + (ranks - 1) * stride : out.data();
        this->on().sum_in_rank_order(pointers, count, 0.3F, to);
        ASSERT_TRUE(same_bits(this->get(to, count), expected)) << ranks << " ranks, " << count;
      }
    }
  }
}

TYPED_TEST(StreamElementwise, SumsSquaresInDouble) {
  const auto result = this->template buffer<double>(1);
  for (const std::size_t count : {0, 1, 7, 255, 256, 257, 4095, 4097, 100000}) {
    source_of_numbers random(static_cast<std::uint32_t>(count));
    std::vector<float> numbers = random.numbers(count);
    const auto x = this->put(numbers);
    double expected = 0;
    for (const float number : numbers) expected += static_cast<double>(number) * static_cast<double>(number);
    this->on().squared_norm(count, x.data(), result.data());
    ASSERT_NEAR(this->get(result)[0], expected, 1e-12 * expected) << count;
    this->on().squared_norm(count, x.data(), result.data());
    const double again = this->get(result)[0];
    this->on().squared_norm(count, x.data(), result.data());
    ASSERT_EQ(this->get(result)[0], again);
    if (count == 0) continue;
    for (const float bad : {nan, inf}) {
      numbers[count / 2] = bad;
      const auto spoilt = this->put(numbers);
      this->on().squared_norm(count, spoilt.data(), result.data());
      ASSERT_FALSE(std::isfinite(this->get(result)[0]));
    }
  }
}

TYPED_TEST(StreamElementwise, FindsTheFirstNumberThatIsNotFinite) {
  const auto result = this->template buffer<non_finite>(1);
  for (const std::size_t count : {0, 1, 100, 5000, 300000}) {
    std::vector<float> numbers(count, 3e38F);
    const auto finite = this->put(numbers);
    this->on().find_non_finite(count, finite.data(), result.data());
    ASSERT_EQ(this->get(result)[0].place, count);
    for (const std::size_t at : {count - 1, count / 2, count / 3}) {  // descending: earlier ones stay set
      if (at >= count) continue;
      numbers[at] = at % 2 == 0 ? nan : -inf;
      const auto there = this->put(numbers);
      this->on().find_non_finite(count, there.data(), result.data());
      const non_finite found = this->get(result)[0];
      ASSERT_EQ(found.place, at);
      ASSERT_TRUE(same_bits({&found.number, 1}, {&numbers[at], 1}));
    }
  }
}

}  // namespace
}  // namespace troupe::kernels::test::stream_elementwise_test
