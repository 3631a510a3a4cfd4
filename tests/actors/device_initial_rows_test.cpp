// Tables made on a CUDA device: it draws their initial rows with the same bits as the processor.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "kernels/backend.hpp"
#include "kernels/devices.hpp"
#include "model/embedding_bag.hpp"
#include "tests/emulated_cuda/counts.hpp"
#include "tests/kernels/needs_device.hpp"

namespace troupe::actors::device_initial_rows_test {
namespace {

using DeviceInitialRowsGpu = needs_device;

TEST_F(DeviceInitialRowsGpu, AreTheProcessorsAndComeFromNoHost) {
  model::embedding_bag_options options;
  options.rows = 301;
  options.dim = 13;
  options.seed = 42;
  options.table = 3;
  options.shard = {1, 3};
  using enum row_init::kind;
  for (const auto& [dtype, init] : {std::pair{kernels::row_dtype::f32, row_init{}},
                                    {kernels::row_dtype::f16, {}},
                                    {kernels::row_dtype::bf16, {}},
                                    {kernels::row_dtype::f32, {normal, 0.01}},
                                    {kernels::row_dtype::f32, {uniform, -0.1, 0.2}},
                                    {kernels::row_dtype::bf16, {uniform, 0, 0}}}) {
    options.dtype = dtype;
    options.init = init;
    const model::embedding_bag here(options);
    const auto before = emulated_cuda::counts_now();
    const model::embedding_bag there(options, kernels::cuda_backend().open(0));
    const auto after = emulated_cuda::counts_now();
    if (before) {
      EXPECT_EQ(after->uploads - before->uploads, 0u);
      EXPECT_EQ(after->waits - before->waits, 0u);
    }
    const auto expected = here.weight_bytes();
    std::vector<std::byte> drawn(there.weight_bytes().size());
    there.stream().download(there.weight_bytes().data(), drawn.data(), drawn.size());
    there.stream().synchronize();
    EXPECT_TRUE(std::ranges::equal(drawn, expected)) << static_cast<int>(dtype);
  }
}

}  // namespace
}  // namespace troupe::actors::device_initial_rows_test
