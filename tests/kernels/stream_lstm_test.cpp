// A stream's LSTM gates against their formulas in double: forward by definition, backward derived by hand.

#include <array>
#include <cmath>
#include <limits>

#include "tests/kernels/stream_support.hpp"

namespace troupe::kernels::test::stream_lstm_test {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// One column of one row.
struct cell {
  std::array<double, 4> gates{};  ///< i, f, g, o
  double before = 0;
  double c = 0;
  double h = 0;

  cell(const std::array<double, 4>& sums, double c_before)
      : gates{sigmoid(sums[0]), sigmoid(sums[1]), std::tanh(sums[2]), sigmoid(sums[3])},
        before(c_before),
        c(gates[1] * before + gates[0] * gates[2]),
        h(gates[3] * std::tanh(c)) {}

  struct gradients {
    std::array<double, 4> sums;
    double before;
  };
  gradients back(double grad_h, double grad_c) const {
    const auto [i, f, g, o] = gates;
    const double bent = std::tanh(c);
    const double grad = grad_c + grad_h * o * (1 - bent * bent);
    return {{grad * g * i * (1 - i), grad * before * f * (1 - f), grad * i * (1 - g * g), grad_h * bent * o * (1 - o)},
            grad * f};
  }
};

/// `count` numbers of all sizes, from tiny to saturated.
std::vector<float> wide_numbers(source_of_numbers& random, std::size_t count) {
  std::vector<float> all = random.numbers(count);
  constexpr std::array<float, 6> scales = {1, 1e-6F, 5, 1, 20, 1e30F};
  for (std::size_t i = 0; i < count; ++i) all[i] *= scales[random.below(scales.size())];
  return all;
}

template <class Place>
class StreamLstm : public stream_test<Place> {};
TYPED_TEST_SUITE(StreamLstm, each_device, device_names);

TYPED_TEST(StreamLstm, StepsForwardAndBackByTheFormulas) {
  constexpr std::size_t rows = 3;
  for (const std::size_t hidden : {1, 2, 3, 4, 5, 8, 16, 23, 64, 67}) {
    for (const std::size_t offset : {0, 1}) {
      SCOPED_TRACE(testing::Message() << hidden << " wide, " << offset << " before");
      source_of_numbers random(static_cast<std::uint32_t>(hidden));
      const auto sums = wide_numbers(random, rows * 4 * hidden);
      const auto recurrent = random.numbers(rows * 4 * hidden);
      const auto before = random.numbers(rows * hidden);
      const auto grad_h = random.numbers(rows * hidden);
      const auto grad_c = random.numbers(rows * hidden);
      const auto gates_there = this->put(sums, offset);
      const auto recurrent_there = this->put(recurrent, offset);
      const auto before_there = this->put(before, offset);
      const auto c_there = this->put(std::vector<float>(rows * hidden, nan), offset);
      const auto h_there = this->put(std::vector<float>(rows * hidden, nan), offset);
      this->on().lstm_forward(rows, hidden, recurrent_there.data() + offset, before_there.data() + offset,
                              gates_there.data() + offset, c_there.data() + offset, h_there.data() + offset);
      const auto gates = this->get(gates_there.data() + offset, sums.size());
      const auto c = this->get(c_there.data() + offset, before.size());
      const auto h = this->get(h_there.data() + offset, before.size());
      const auto grad_h_there = this->put(grad_h, offset);
      const auto grad_c_there = this->put(grad_c, offset);
      this->on().lstm_backward(rows, hidden, before_there.data() + offset, c_there.data() + offset,
                               grad_h_there.data() + offset, grad_c_there.data() + offset, gates_there.data() + offset);
      const auto grad_sums = this->get(gates_there.data() + offset, sums.size());
      const auto grad_before = this->get(grad_c_there.data() + offset, before.size());
      for (std::size_t at = 0; at < rows * hidden; ++at) {
        const std::size_t first = at / hidden * 4 * hidden + at % hidden;
        std::array<double, 4> of_sums{};
        for (std::size_t g = 0; g < 4; ++g) of_sums[g] = sums[first + g * hidden] + recurrent[first + g * hidden];
        const cell expected(of_sums, before[at]);
        const auto back = expected.back(grad_h[at], grad_c[at]);
        for (std::size_t g = 0; g < 4; ++g) {
          ASSERT_NEAR(gates[first + g * hidden], expected.gates[g], 1e-6) << of_sums[g];
          ASSERT_NEAR(grad_sums[first + g * hidden], back.sums[g], 2e-6) << g << " of " << of_sums[g];
        }
        ASSERT_NEAR(c[at], expected.c, 2e-6);
        ASSERT_NEAR(h[at], expected.h, 2e-6);
        ASSERT_NEAR(grad_before[at], back.before, 2e-6);
      }
    }
  }
}

TEST(LstmGates, FollowTheFormulasOnEveryInstructionSet) {
  constexpr std::size_t hidden = 31;
  source_of_numbers random(4);
  const auto sums = wide_numbers(random, 4 * hidden);
  const auto recurrent = random.numbers(4 * hidden);
  const auto before = random.numbers(hidden);
  const auto grad_h = random.numbers(hidden);
  on_every_target([&] {
    std::vector<float> gates = sums;
    std::vector<float> c(hidden);
    std::vector<float> h(hidden);
    std::vector<float> grad_c(hidden);
    host_stream().lstm_forward(1, hidden, recurrent.data(), before.data(), gates.data(), c.data(), h.data());
    host_stream().lstm_backward(1, hidden, before.data(), c.data(), grad_h.data(), grad_c.data(), gates.data());
    for (std::size_t j = 0; j < hidden; ++j) {
      std::array<double, 4> of_sums{};
      for (std::size_t g = 0; g < 4; ++g) of_sums[g] = sums[g * hidden + j] + recurrent[g * hidden + j];
      const cell expected(of_sums, before[j]);
      const auto back = expected.back(grad_h[j], 0);
      ASSERT_NEAR(h[j], expected.h, 2e-6) << j;
      ASSERT_NEAR(grad_c[j], back.before, 2e-6) << j;
      for (std::size_t g = 0; g < 4; ++g) ASSERT_NEAR(gates[g * hidden + j], back.sums[g], 2e-6) << j;
    }
  });
}

TYPED_TEST(StreamLstm, HasAllDigitsOfSmallSums) {
  const std::vector<float> sums = {0, 0, 1e-20F, 0, -3e-5F, 0, 2e-3F, 0};
  const auto gates = this->put(sums);
  const auto zeros = this->put(std::vector<float>(8, 0.0F));
  const auto c = this->template buffer<float>(2);
  const auto h = this->template buffer<float>(2);
  // Two rows of one column.
  this->on().lstm_forward(2, 1, zeros.data(), zeros.data(), gates.data(), c.data(), h.data());
  const auto got = this->get(gates);
  EXPECT_EQ(got[0], 0.5F);
  EXPECT_NEAR(got[2] / 1e-20, 1, 1e-6);
  EXPECT_NEAR(got[6] / std::tanh(2e-3), 1, 1e-6);
  EXPECT_NEAR(this->get(c)[0] / 5e-21, 1, 1e-6);
}

TYPED_TEST(StreamLstm, ShowsANan) {
  for (std::size_t wrong = 0; wrong < 4; ++wrong) {
    std::vector<float> sums(4, 0.25F);
    sums[wrong] = nan;
    const auto gates = this->put(sums);
    const auto ones = this->put(std::vector<float>(4, 1.0F));
    const auto c = this->template buffer<float>(1);
    const auto h = this->template buffer<float>(1);
    this->on().lstm_forward(1, 1, ones.data(), ones.data(), gates.data(), c.data(), h.data());
    EXPECT_EQ(std::isnan(this->get(c)[0]), wrong < 3);
    EXPECT_TRUE(std::isnan(this->get(h)[0]));
  }
  this->on().lstm_forward(0, 3, nullptr, nullptr, nullptr, nullptr, nullptr);
  this->on().lstm_backward(0, 3, nullptr, nullptr, nullptr, nullptr, nullptr);
  this->on().synchronize();
}

/// A row's bits do not depend on its neighbours.
TYPED_TEST(StreamLstm, LooksAtEachRowAlone) {
  constexpr std::size_t hidden = 12;
  source_of_numbers random(3);
  const auto sums = random.numbers(5 * 4 * hidden);
  const auto recurrent = random.numbers(5 * 4 * hidden);
  const auto before = random.numbers(5 * hidden);
  const auto h_of = [&](std::size_t first, std::size_t rows) {
    const auto part = [&](const std::vector<float>& all, std::size_t width) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first * width);
      return this->put(std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(rows * width)));
    };
    const auto gates = part(sums, 4 * hidden);
    const auto of_state = part(recurrent, 4 * hidden);
    const auto c_before = part(before, hidden);
    const auto c = this->template buffer<float>(rows * hidden);
    const auto h = this->template buffer<float>(rows * hidden);
    this->on().lstm_forward(rows, hidden, of_state.data(), c_before.data(), gates.data(), c.data(), h.data());
    return this->get(h);
  };
  const auto whole = h_of(0, 5);
  for (std::size_t row = 0; row < 5; ++row)
    EXPECT_TRUE(same_bits(h_of(row, 1), std::span(whole).subspan(row * hidden, hidden))) << row;
}

}  // namespace
}  // namespace troupe::kernels::test::stream_lstm_test
