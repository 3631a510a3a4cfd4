// A stream's dense updates equal the processor's bitwise; optimizer_test.cpp checks those against the formulas.

#include "tests/kernels/optimizer_support.hpp"
#include "tests/kernels/stream_support.hpp"

namespace troupe::kernels::test::stream_update_test {
namespace {

template <class Place>
class StreamUpdate : public stream_test<Place> {};
TYPED_TEST_SUITE(StreamUpdate, each_device, device_names);

TYPED_TEST(StreamUpdate, HasTheProcessorsBits) {
  for (const optimizer_case& c : optimizer_cases()) {
    for (const std::size_t count : {0, 1, 4, 7, 100, 2049}) {
      for (const std::size_t before : {0, 1}) {
        SCOPED_TRACE(c.name + ", " + std::to_string(count));
        source_of_numbers random(static_cast<std::uint32_t>(count));
        const std::vector<float> initial = random.numbers(count);
        optimized<float> expected(c, initial);
        const auto weights = this->put(initial, before);
        const auto first = this->put(expected.first, before);
        const auto second = this->put(expected.second, before);
        for (int t = 1; t <= 3; ++t) {
          const std::vector<float> grad = random.numbers(count);
          const auto device_grad = this->put(grad, before);
          host_stream().update_dense(constants_of(c, t), count, expected.weights.data(), expected.view(), grad.data());
          this->on().update_dense(constants_of(c, t), count, weights.data() + before,
                                  {first.data() + before, second.data() + before}, device_grad.data() + before);
          this->on().synchronize();
        }
        ASSERT_TRUE(same_bits(this->get(weights.data() + before, count), expected.weights));
        ASSERT_TRUE(same_bits(this->get(first.data() + before, expected.first.size()), expected.first));
        ASSERT_TRUE(same_bits(this->get(second.data() + before, expected.second.size()), expected.second));
      }
    }
  }
}

TYPED_TEST(StreamUpdate, KeepsInfiniteWeightsWithoutDecay) {
  const auto weight = this->put(std::vector<float>{INFINITY});
  const auto grad = this->put(std::vector<float>{1.0F});
  this->on().update_dense(constants_of({"sgd", optimizer_kind::sgd}, 1), 1, weight.data(), {}, grad.data());
  EXPECT_EQ(this->get(weight)[0], INFINITY);
}

}  // namespace
}  // namespace troupe::kernels::test::stream_update_test
