// cuDNN is loaded for the first convolution: without it all else runs, and a convolution's error names a remedy.

#include "tests/emulated_cuda/counts.hpp"
#include "tests/kernels/child_process.hpp"
#include "tests/kernels/stream_support.hpp"

namespace troupe::kernels::test::cudnn_test {
namespace {

class CudnnGpu : public stream_test<on_cuda> {};

/// For a child whose emulated machine has no cuDNN.
TEST_F(CudnnGpu, DISABLED_IsMissing) {
  const auto x = put(std::vector<float>{-1, 2, 3, 4});
  const auto weight = put(std::vector<float>{1});
  const auto y = buffer<float>(4);
  const conv2d_shape shape{1, 2, 2, 1, 1, 1, 0};
  for (int i = 0; i < 2; ++i) {
    on().relu_forward(4, x.data(), y.data());
    EXPECT_EQ(get(y), (std::vector<float>{0, 2, 3, 4}));
    try {
      on().conv2d_forward(shape, 1, x.data(), weight.data(), nullptr, y.data());
      FAIL() << "a convolution without cuDNN";
    } catch (const device_error& error) {
      const std::string text = error.what();
      for (const char* const part : {"libcudnn.so.9: cannot open", "install cuDNN 9", "--device cpu"})
        EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  }
}

TEST_F(CudnnGpu, IsNeededByConvolutionsOnly) {
  if (!emulated_cuda::counts_now()) GTEST_SKIP() << "skipped: not the emulated CUDA";
  const std::string output = child_process("CudnnGpu.DISABLED_IsMissing", "TROUPE_EMULATED_CUDA=cudnn=none").output();
  EXPECT_NE(output.find("[  PASSED  ] 1 test"), std::string::npos) << output;
}

}  // namespace
}  // namespace troupe::kernels::test::cudnn_test
