// Factors of a layer's products, rounded once for several products, and masks of ReLUs: the results equal those of
// products that round their own factors, and of a separate ReLU.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/emulated_cuda/counts.hpp"
#include "tests/kernels/child_process.hpp"
#include "tests/kernels/stream_support.hpp"

namespace troupe::kernels::test::stream_factors_test {
namespace {

constexpr std::size_t batches[] = {1, 7, 130};
constexpr std::size_t widths[] = {8, 24, 130};

bool is_emulated() { return emulated_cuda::counts_now().has_value(); }

template <class Place>
class StreamFactors : public stream_test<Place> {
 protected:
  /// Calls `body` with a stream of each precision of the device, a batch, and two widths.
  template <class Body>
  void on_each(const Body& body) {
    for (const auto precision : {matmul_precision::f32, matmul_precision::tf32, matmul_precision::bf16}) {
      if (this->device().is_host() && precision != matmul_precision::f32) continue;
      const auto on = this->device().make_stream(precision);
      for (const std::size_t batch : batches) {
        for (const std::size_t in : widths) {
          for (const std::size_t out : widths) {
            SCOPED_TRACE("precision " + std::to_string(static_cast<int>(precision)) + ", " + std::to_string(batch) +
                         " x " + std::to_string(in) + " x " + std::to_string(out));
            EXPECT_EQ(on->multiplies_in_bf16(in, out), precision == matmul_precision::bf16 && in < 130 && out < 130);
            body(*on, batch, in, out);
          }
        }
      }
    }
  }

  /// The same numbers on the device twice: unrounded, and rounded by the stream.
  struct factor {
    device_array<float> numbers;
    device_array<std::uint16_t> in_bf16;

    product_factor rounded() const { return {numbers.data(), in_bf16.data()}; }
  };

  factor make_factor(stream& on, const std::vector<float>& numbers) {
    factor made{this->put(numbers), this->template buffer<std::uint16_t>(numbers.size())};
    on.round_to_bf16(numbers.size(), made.numbers.data(), made.in_bf16.data());
    return made;
  }

  std::vector<float> got(stream& on, const device_array<float>& array) {
    on.synchronize();
    return this->get(array);
  }
};
TYPED_TEST_SUITE(StreamFactors, each_device, device_names);

TYPED_TEST(StreamFactors, AreRoundedToTheNearestAndTiesToEven) {
  const std::vector<std::array<std::uint32_t, 2>> cases = {
      {0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f808001, 0x3f81}, {0x3f818000, 0x3f82}, {0x3f817fff, 0x3f81},
      {0xbf818000, 0xbf82}, {0x7f7fffff, 0x7f80}, {0x7f800000, 0x7f80}, {0xff800000, 0xff80}, {0x80000000, 0x8000},
      {0x00008000, 0x0000}, {0x00018000, 0x0002}, {0x007fffff, 0x0080}};
  std::vector<float> numbers;
  for (const auto& one : cases) numbers.push_back(std::bit_cast<float>(one[0]));
  numbers.push_back(std::numeric_limits<float>::quiet_NaN());
  for (const std::size_t before : {0, 1}) {
    const auto x = this->put(numbers, before);
    const auto rounded = this->template buffer<std::uint16_t>(numbers.size() + before);
    this->on().round_to_bf16(numbers.size(), x.data() + before, rounded.data() + before);
    const auto got = this->get(rounded.data() + before, numbers.size());
    for (std::size_t i = 0; i < cases.size(); ++i) EXPECT_EQ(got[i], cases[i][1]) << std::hex << cases[i][0];
    EXPECT_GT(got.back() & 0x7fff, 0x7f80);
  }
}

TYPED_TEST(StreamFactors, RoundedBeforeGiveTheSameBits) {
  this->on_each([&](stream& on, std::size_t batch, std::size_t in, std::size_t out) {
    source_of_numbers random(static_cast<std::uint32_t>(batch * 10000 + in * 100 + out));
    const auto x = this->make_factor(on, random.numbers(batch * in));
    const auto weight = this->make_factor(on, random.numbers(out * in));
    const auto grad_y = this->make_factor(on, random.numbers(batch * out));
    const auto bias = this->put(random.numbers(out));
    const auto results = [&](product_factor of_x, product_factor of_weight, product_factor of_y) {
      const auto y = this->template buffer<float>(batch * out);
      const auto grad_x = this->template buffer<float>(batch * in);
      const auto grads = this->template buffer<float>(out * in + out);
      on.linear_forward(batch, in, out, of_x, of_weight, bias.data(), activation::relu, y.data());
      on.linear_backward_input(batch, in, out, of_weight, of_y, grad_x.data());
      on.linear_backward_parameters(batch, in, out, of_x, of_y, grads.data(), grads.data() + out * in);
      return std::array{this->got(on, y), this->got(on, grad_x), this->got(on, grads)};
    };
    const auto expected = results(x.numbers.data(), weight.numbers.data(), grad_y.numbers.data());
    const auto got = results(x.rounded(), weight.rounded(), grad_y.rounded());
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_TRUE(same_bits(got[i], expected[i])) << i;
  });
}

/// A layer with a ReLU, and the layer above, whose input gradient the mask applies to. The ReLU's input is exactly 0 in
/// the first column, where a mask may also pass the gradient.
TYPED_TEST(StreamFactors, AMaskDoesWhatASeparateReluDoes) {
  for (const std::size_t above : {1, 8})
    this->on_each([&](stream& on, std::size_t batch, std::size_t in, std::size_t width) {
      source_of_numbers random(static_cast<std::uint32_t>(batch * 10000 + in * 100 + width));
      auto numbers = random.numbers(width * in);
      std::fill_n(numbers.begin(), in, 0.0F);
      auto biases = random.numbers(width);
      biases[0] = 0;
      const auto x = this->put(random.numbers(batch * in));
      const auto weight = this->put(numbers);
      const auto bias = this->put(biases);
      const auto weight_above = this->put(random.numbers(above * width));
      const auto grad_above = this->put(random.numbers(batch * above));
      const auto y = this->template buffer<float>(batch * width);
      const auto masked_y = this->template buffer<float>(batch * width);
      const auto grad = this->template buffer<float>(batch * width);
      const auto masked_grad = this->template buffer<float>(batch * width);
      const auto mask = this->template buffer<std::byte>(batch * relu_mask_bits(width) / 8);

      on.linear_forward(batch, in, width, x.data(), weight.data(), bias.data(), activation::relu, y.data());
      on.linear_backward_input(batch, width, above, weight_above.data(), grad_above.data(), grad.data());
      const bool has_mask = on.linear_forward(batch, in, width, x.data(), weight.data(), bias.data(), activation::relu,
                                              masked_y.data(), mask.data());
      const bool is_masked = on.linear_backward_input(batch, width, above, weight_above.data(), grad_above.data(),
                                                      masked_grad.data(), has_mask ? mask.data() : nullptr);
      EXPECT_FALSE(is_masked && !has_mask);
      const std::vector<float> unmasked = this->got(on, grad);
      on.relu_backward(batch * width, masked_y.data(), grad.data(), grad.data());
      if (!is_masked) on.relu_backward(batch * width, masked_y.data(), masked_grad.data(), masked_grad.data());
      EXPECT_FALSE(this->device().is_host() && has_mask);

      auto expected = std::array{this->got(on, y), this->got(on, grad)};
      const auto got = std::array{this->got(on, masked_y), this->got(on, masked_grad)};
      for (std::size_t i = 0; i < batch * width; i += width) {
        ASSERT_EQ(expected[1][i], 0) << i;
        if (is_masked && got[1][i] != 0) expected[1][i] = unmasked[i];
      }
      for (std::size_t i = 0; i < batch * width; ++i)
        // cuBLASLt may sum in another order for another epilogue.
        for (std::size_t which = 0; which < 2; ++which) ASSERT_NEAR(got[which][i], expected[which][i], 1e-4) << i;
      if (!this->device().is_host() && !is_emulated()) return;
      for (std::size_t which = 0; which < 2; ++which) ASSERT_TRUE(same_bits(got[which], expected[which])) << which;
    });
}

/// Tests both epilogues with a ReLU.
TYPED_TEST(StreamFactors, AReluShowsANanWhateverThePrecision) {
  this->on_each([&](stream& on, std::size_t batch, std::size_t in, std::size_t out) {
    std::vector<float> x(batch * in, 1.0F);
    x[(batch - 1) * in] = std::numeric_limits<float>::quiet_NaN();
    const auto device_x = this->put(x);
    const auto weight = this->put(std::vector<float>(out * in, 1.0F));
    const auto bias = this->put(std::vector<float>(out, 1.0F));
    const auto y = this->template buffer<float>(batch * out);
    const auto mask = this->template buffer<std::byte>(batch * relu_mask_bits(out) / 8);
    for (std::byte* const of : {static_cast<std::byte*>(nullptr), mask.data()}) {
      on.linear_forward(batch, in, out, device_x.data(), weight.data(), bias.data(), activation::relu, y.data(), of);
      const std::vector<float> got = this->got(on, y);
      for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(std::isnan(got[i]), i >= (batch - 1) * out) << i;
    }
  });
}

class StreamWithoutMasksGpu : public stream_test<on_cuda> {};

TEST_F(StreamWithoutMasksGpu, TheReluIsAKernelOfItsOwn) {
  for (const char* const epilogues : {"none", "no_mask", "no_drelu"}) {
    const std::string output =
        child_process("StreamFactors/Gpu.*", std::string("TROUPE_EMULATED_CUDA=epilogues=") + epilogues).output();
    EXPECT_NE(output.find("[  PASSED  ] 4 tests"), std::string::npos) << epilogues << ": " << output;
  }
}

}  // namespace
}  // namespace troupe::kernels::test::stream_factors_test
