// Converting between a dense part's arrays and a checkpoint's named tensors.

#include "actors/master/dense_layout.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "protocol/errors.hpp"
#include "tests/model/made_checkpoint.hpp"

namespace troupe::actors::dense_layout_test {
namespace {

constexpr std::uint64_t step = 8;
const dense_layout layout{{{"top.0.weight", {2, 3}, 0}, {"top.0.bias", {2}, 6}}, {{"norm.mean", {5}, 0}}};

class DenseLayout : public testing::Test {
 protected:
  void SetUp() override {
    content_.dense.push_back({"norm.mean", dtype::f32, {5}});
    model::make_checkpoints(folder_.path(), {step}, content_);
    auto found = model::newest_whole_checkpoint(folder_.path());
    ASSERT_TRUE(found) << found.error().message;
    saved_ = std::move(found->what);
  }

  /// Returns the bytes of these tensors of the checkpoint, concatenated.
  static std::vector<std::byte> bytes_of(std::initializer_list<const char*> names) {
    std::vector<std::byte> all;
    for (const std::string name : names) {
      const std::size_t count = name == "norm.mean" ? 5 : name.starts_with("top.0.bias") ? 2 : 6;
      const auto more = model::made_bytes(name, step, count * sizeof(float));
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }

  const model::checkpoint_folder folder_;
  model::made_content content_;
  model::checkpoint saved_;
};

TEST_F(DenseLayout, ReadsWeightsThenTheOptimizersBuffersThenTheNetworks) {
  const auto arrays = layout.read(saved_, 1);
  ASSERT_TRUE(arrays) << protocol::describe(arrays.error());
  std::vector<std::vector<std::byte>> found;
  for (const msg::tensor& one : *arrays) found.emplace_back(one.bytes.data(), one.bytes.data() + one.bytes.size());
  const std::vector<std::vector<std::byte>> expected = {bytes_of({"top.0.weight", "top.0.bias"}),
                                                        bytes_of({"top.0.weight.state.0", "top.0.bias.state.0"}),
                                                        bytes_of({"norm.mean"})};
  EXPECT_EQ(found, expected);
}

TEST_F(DenseLayout, ANetworkWithoutBuffersHasNoArrayForThem) {
  const auto arrays = dense_layout{layout.parameters, {}}.read(saved_, 0);
  ASSERT_TRUE(arrays) << protocol::describe(arrays.error());
  ASSERT_EQ(arrays->size(), 1U);
  EXPECT_EQ(arrays->front().rows, 8U);
}

TEST_F(DenseLayout, ViewsNameWhatWasRead) {
  const auto arrays = layout.read(saved_, 1);
  ASSERT_TRUE(arrays) << protocol::describe(arrays.error());
  std::vector<model::tensor_declaration> declared;
  for (const model::tensor_view& one : layout.views(*arrays)) {
    declared.push_back(one.what);
    EXPECT_EQ(std::vector<std::byte>(one.bytes.begin(), one.bytes.end()), bytes_of({one.what.name.c_str()}))
        << one.what.name;
  }
  EXPECT_EQ(declared, content_.dense);
}

TEST_F(DenseLayout, ABufferThatIsNotThereIsNamed) {
  const auto arrays = layout.read(saved_, 2);
  ASSERT_FALSE(arrays);
  EXPECT_EQ(arrays.error(), protocol::errc::bad_input);
  EXPECT_NE(protocol::describe(arrays.error()).find("top.0.weight.state.1"), std::string::npos)
      << protocol::describe(arrays.error());
}

}  // namespace
}  // namespace troupe::actors::dense_layout_test
