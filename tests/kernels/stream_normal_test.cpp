// Rows of random numbers that a stream draws: bitwise those of `draw_numbers`, on every device.

#include <algorithm>
#include <span>

#include "kernels/normal.hpp"
#include "tests/emulated_cuda/counts.hpp"
#include "tests/kernels/stream_support.hpp"
#include "tests/kernels/unmixed.hpp"

namespace troupe::kernels::test::stream_normal_test {
namespace {

template <class Place>
class StreamNormals : public stream_test<Place> {
 protected:
  /// Draws rows and compares all bits, including those before and after the rows.
  void expect_rows(const row_keys& keys, std::size_t rows, std::size_t dim, row_dtype type, const row_init& from = {}) {
    SCOPED_TRACE(testing::Message() << rows << " rows of " << dim << ", " << size_of(type) << " bytes a number");
    const std::size_t before = size_of(type);
    const std::size_t row_bytes = dim * size_of(type);
    std::vector<std::byte> expected(before + rows * row_bytes + 64, std::byte{0x5a});
    const auto drawn = this->put(expected);
    std::vector<float> numbers(dim);
    for (std::size_t r = 0; r < rows; ++r) {
      draw_numbers(from, mix(keys.first + r * keys.step), dim, numbers.data());
      encode(dim, numbers.data(), {expected.data() + before + r * row_bytes, type});
    }
    this->on().draw_rows(from, keys, rows, dim, {drawn.data() + before, type});
    const auto got = this->get(drawn);
    const auto wrong = std::ranges::mismatch(got, expected).in1 - got.begin();
    ASSERT_EQ(static_cast<std::size_t>(wrong), expected.size()) << "the first byte that differs";
  }
};
TYPED_TEST_SUITE(StreamNormals, each_device, device_names);

TYPED_TEST(StreamNormals, AreThoseOfTheRowsKeys) {
  constexpr std::size_t numbers_at_least = 100'000;
  for (const row_dtype type : {row_dtype::f32, row_dtype::f16, row_dtype::bf16})
    for (const std::size_t dim : {1, 3, 16, 130})
      for (const std::uint64_t step : {1, 3})
        this->expect_rows({mix(dim) + 7 * step, step}, numbers_at_least / dim + 5, dim, type);
}

TYPED_TEST(StreamNormals, MayHaveAnotherDeviationOrBeUniform) {
  using enum row_init::kind;
  for (const row_init& from : {row_init{normal, 0.01}, row_init{normal, 0}, row_init{uniform, -0.25, 0.125},
                               row_init{uniform, 0, 0}, row_init{uniform, -3e38, 3e38}})
    for (const row_dtype type : {row_dtype::f32, row_dtype::f16, row_dtype::bf16})
      for (const std::size_t dim : {1, 3, 16, 130}) this->expect_rows({mix(dim), 3}, 2000 / dim + 5, dim, type, from);
}

TYPED_TEST(StreamNormals, AreTheSameFromAnyFirstRow) {
  constexpr std::size_t rows = 50;
  constexpr std::size_t dim = 5;
  const row_keys keys{~std::uint64_t{0} - 20, 3};  // the sum exceeds 2^64
  const auto all = this->template buffer<float>(rows * dim);
  this->on().draw_rows({}, keys, rows, dim, all.data());
  const auto expected = this->get(all);
  for (const std::size_t first : {1, 7, 49}) {
    const auto some = this->template buffer<float>((rows - first) * dim);
    this->on().draw_rows({}, {keys.first + first * keys.step, keys.step}, rows - first, dim, some.data());
    ASSERT_TRUE(same_bits(this->get(some), std::span(expected).subspan(first * dim))) << first;
  }
}

TYPED_TEST(StreamNormals, AreEqualAtBothEndsOfTheUniformNumbers) {
  for (const std::uint64_t bits : extreme_bits) {
    for (const std::uint64_t counter : {0, 1, 8}) {
      const row_keys keys{unmix(key_for(bits, counter)), 1};
      ASSERT_EQ(random_bits(keys.of(0), counter), bits);
      for (const row_dtype type : {row_dtype::f32, row_dtype::f16, row_dtype::bf16})
        this->expect_rows(keys, 2, 9, type);
    }
  }
}

TYPED_TEST(StreamNormals, NeedNoRows) {
  this->on().draw_rows({}, {}, 0, 4, static_cast<float*>(nullptr));
  this->on().synchronize();
}

class StreamNormalsGpu : public stream_test<on_cuda> {};

TEST_F(StreamNormalsGpu, TakeOneLaunchAndNothingFromTheHost) {
  if (!emulated_cuda::counts_now()) GTEST_SKIP() << "skipped: only the emulation counts launches";
  const auto table = buffer<float>(1000);
  const auto before = *emulated_cuda::counts_now();
  on().draw_rows({}, {}, 100, 10, table.data());
  const auto after = *emulated_cuda::counts_now();
  EXPECT_EQ(after.launches - before.launches, 1u);
  EXPECT_EQ(after.waits - before.waits, 0u);
  EXPECT_EQ(after.uploads - before.uploads, 0u);
}

}  // namespace
}  // namespace troupe::kernels::test::stream_normal_test
