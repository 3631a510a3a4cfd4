// Shapes and tensors at their limits.

#include "troupe/tensor.hpp"
#include "tests/library/error_of.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "troupe/error.hpp"

namespace troupe::tensor_test {
namespace {

using test::error_of;

TEST(Tensors, HaveAnItemIfTheyHaveANumber) {
  const std::vector<float> one = {3};
  EXPECT_EQ(tensor::of<float>(shape(1), one).item(), 3);
  EXPECT_EQ(error_of([] { return tensor().item(); }),
            "item() of a tensor [] of 0 numbers; it takes one of a single number");
  EXPECT_EQ(error_of([] { return tensor(shape(2)).item(); }),
            "item() of a tensor [2] of 2 numbers; it takes one of a single number");
}

TEST(Tensors, NameASizeThatNoMemoryHas) {
  const auto text = [](const shape& lengths) { return error_of([&] { return tensor(lengths); }); };
  constexpr const char* rest = " of float32: it has more than 9223372036854775807 bytes; try a smaller one";
  EXPECT_EQ(text(shape(std::size_t{1} << 62)), std::string("a tensor [4611686018427387904]") + rest);
  EXPECT_EQ(text(shape(std::size_t{1} << 32, std::size_t{1} << 32)),
            std::string("a tensor [4294967296, 4294967296]") + rest);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // the sanitizer's allocator ends the program
  EXPECT_EQ(text(shape(std::size_t{1} << 60)),
            "a tensor [1152921504606846976] of float32: there is no memory for its 4611686018427387904 bytes; try a "
            "smaller one");
#endif
  EXPECT_EQ(text(shape(std::size_t{1} << 62, 0)), "no error") << "it has no numbers";
}

TEST(Shapes, HaveAsManyDimensionsAsTheirLimit) {
  EXPECT_EQ(shape::of(std::vector<int>(6, 2)).dimensions(), 6U);
  EXPECT_EQ(error_of([] { return shape::of(std::vector<int>(7, 2)); }),
            "shape::of: more than 6 lengths; a tensor has at most 6 dimensions");
  EXPECT_EQ(error_of([] { return shape().with_last(2); }),
            "with_last of a shape without dimensions; it has none to change");
  EXPECT_EQ(error_of([] { return shape().with_first(2); }),
            "with_first of a shape without dimensions; it has none to change");
}

}  // namespace
}  // namespace troupe::tensor_test
