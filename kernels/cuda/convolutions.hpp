// Convolutions by cuDNN. The algorithm for a shape is chosen once and cached, so that later convolutions cost only
// their launch.

#pragma once

#include <cuda_runtime_api.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "kernels/device.hpp"
#include "kernels/image.hpp"

struct cudnnContext;

namespace troupe::kernels::cuda {

/// What a convolution computes: y from x and weight, x's gradient from y's and weight, or weight's from x and y's.
enum class convolution_pass : std::uint8_t { forward, backward_input, backward_weight };

/// The key for the choice of an algorithm.
struct convolution_key {
  conv2d_shape shape;
  std::size_t batch = 0;
  convolution_pass pass = convolution_pass::forward;

  auto operator<=>(const convolution_key&) const = default;  // NOLINT(modernize-use-nullptr): it compares with 0
};

/// Device pointers to numbers or their gradients, aligned to `convolution_alignment`. The pass writes one of them.
struct convolution_operands {
  float* x = nullptr;
  float* weight = nullptr;
  float* y = nullptr;
};

/// The alignment in bytes that cuDNN's operands need.
inline constexpr std::size_t convolution_alignment = 16;

/// Thread: one at a time. Requires: the stream's device is current in each call.
class convolutions {
 public:
  /// Throws if cuDNN cannot be loaded.
  convolutions(cudaStream_t stream, matmul_precision precision);
  ~convolutions();
  convolutions(const convolutions&) = delete;
  convolutions& operator=(const convolutions&) = delete;

  /// Returns how many bytes of memory `run` needs besides the operands. Chooses the algorithm at the first call for a
  /// key; throws if cuDNN has none whose sums have a fixed order. Requires: no operand is empty.
  std::size_t workspace_bytes(const convolution_key& key);

  /// Enqueues a convolution. Requires: `workspace_bytes` has been called for the key. The order of sums depends on the
  /// key only.
  void run(const convolution_key& key, const convolution_operands& operands, std::byte* workspace);

 private:
  struct plan;

  std::unique_ptr<plan> make_plan(const convolution_key& key) const;

  const matmul_precision precision_;
  cudnnContext* handle_ = nullptr;
  std::map<convolution_key, std::unique_ptr<plan>> plans_;
};

}  // namespace troupe::kernels::cuda
