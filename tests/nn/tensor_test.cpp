// Number types by name and size, and their tensors.

#include "nn/tensor.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/error.hpp"

namespace troupe::nn_tensor_test {
namespace {

std::string refusal(dtype type, bool has_memory) {
  try {
    const tensor made = has_memory ? tensor(shape(2), type, std::make_shared<std::byte>()) : tensor(shape(2), type);
  } catch (const error& e) {
    return e.what();
  }
  return "";
}

/// The names in PyTorch and in safetensors files; the first six have these values in messages.
TEST(NumberTypes, HaveTheNamesOfPyTorchAndOfFiles) {
  const std::vector<std::tuple<std::string_view, std::string_view, std::size_t>> expected = {
      {"float32", "F32", 4},
      {"float64", "F64", 8},
      {"int64", "I64", 8},
      {"uint64", "U64", 8},
      {"float16", "F16", 2},
      {"bfloat16", "BF16", 2},
      {"uint32", "U32", 4},
      {"int32", "I32", 4},
      {"uint16", "U16", 2},
      {"int16", "I16", 2},
      {"uint8", "U8", 1},
      {"int8", "I8", 1},
      {"bool", "BOOL", 1},
      {"float8_e5m2", "F8_E5M2", 1},
      {"float8_e4m3fn", "F8_E4M3", 1}};
  std::size_t value = 0;
  for (const auto& [name, in_file, bytes] : expected) {
    const auto type = dtype_named(name);
    ASSERT_TRUE(type) << name;
    if (value++ < 6) {
      EXPECT_EQ(static_cast<std::size_t>(*type), value - 1) << name;
    }
    EXPECT_EQ(name_in_file(*type), in_file);
    EXPECT_EQ(dtype_named(in_file, name_in_file), type);
    EXPECT_FALSE(dtype_named(in_file)) << "a name of another list";
    EXPECT_EQ(size_of(*type), bytes) << name;
    EXPECT_EQ(is_message_type(*type), value <= 6) << name;
    EXPECT_EQ(is_tensor_type(*type), value <= 3) << name;
  }
  EXPECT_FALSE(dtype_named("float128"));
}

TEST(Tensors, OfOtherNumbersThanTheirThreeTypesAreRefused) {
  for (const bool has_memory : {false, true}) {
    EXPECT_EQ(refusal(dtype::bf16, has_memory), "a tensor [2] of bfloat16: tensors have float32, float64 or int64");
    EXPECT_EQ(refusal(dtype::u64, has_memory), "a tensor [2] of uint64: tensors have float32, float64 or int64");
  }
  for (const dtype type : {dtype::f64, dtype::i64}) EXPECT_EQ(refusal(type, false), "");
}

TEST(Tensors, HaveClonesThatShareNoMemory) {
  const std::vector<double> numbers = {1, 2, 3};
  const tensor x = tensor::of<double>(shape(3), numbers);
  const tensor shared = x;
  const tensor cloned = x.clone();
  x.as<double>()[1] = 7;
  EXPECT_EQ(shared.as<double>()[1], 7);
  EXPECT_EQ(cloned.as<double>()[1], 2);
  EXPECT_EQ(cloned.shape(), shape(3));
  EXPECT_EQ(cloned.bytes().size(), 24U);
  EXPECT_FALSE(tensor().clone().owner());
}

}  // namespace
}  // namespace troupe::nn_tensor_test
