// cuDNN: convolutions of contiguous float32 images.
//
// The lists of algorithms begin with some that the backend must not use: one that sums in any order, which is refused
// when used, and one whose workspace exceeds every device.

#include <cudnn.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>

#include "tests/emulated_cuda/faults.hpp"
#include "tests/emulated_cuda/rounding.hpp"
#include "tests/emulated_cuda/runtime.hpp"
#include "tests/emulated_cuda/settings.hpp"

using namespace troupe::emulated_cuda;

struct cudnnContext {
  int device = 0;
  cudaStream_t stream = nullptr;
};

struct cudnnTensorStruct {
  std::array<int, 4> sizes{};  ///< zeros: not set
};

struct cudnnFilterStruct : cudnnTensorStruct {};

struct cudnnConvolutionStruct {
  int padding = 0;
  int stride = 0;  ///< 0: not set
  int dilation = 1;
  int groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

namespace {

constexpr std::size_t alignment = 16;
constexpr std::size_t huge_workspace = std::size_t{1} << 40;
constexpr std::int64_t numbers_end = std::int64_t{1} << 31;

std::int64_t count_of_lengths(const std::array<int, 4>& sizes) {
  std::int64_t all = 1;
  for (const int size : sizes) all *= size;
  return all;
}

/// A convolution's shape: images n c h w, kernels k c r s, named as in cuDNN's documentation; the kernels' c counts the
/// channels of one group.
struct geometry {
  std::array<int, 4> x, weight, y;
  int padding, stride, dilation, groups;
  bool rounds;  ///< whether the convolution rounds its factors to tf32

  /// Whether the descriptors match.
  bool fits() const {
    if (stride < 1 || x[0] < 1 || y[0] < 1 || weight[0] < 1) return false;
    const auto places = [&](int length, int kernel) {
      return (length + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
    };
    return x[1] == groups * weight[1] && y[1] % groups == 0 && y[0] == x[0] && y[1] == weight[0] &&
           y[2] == places(x[2], weight[2]) && y[3] == places(x[3], weight[3]);
  }

  /// The bytes that an algorithm needs: some for each image.
  std::size_t workspace() const { return 256 + sizeof(float) * static_cast<std::size_t>(x[0]); }

  float factor(float number) const { return rounds ? troupe::emulated_cuda::round_to(number, tf32_bits) : number; }

  /// Calls body(index in x, in weight, in y) for all products, in a fixed order.
  template <class Body>
  void for_each_product(const Body& body) const {
    for (int n = 0; n < y[0]; ++n)
      for (int k = 0; k < y[1]; ++k)
        for (int row = 0; row < y[2]; ++row)
          for (int column = 0; column < y[3]; ++column) for_each_product_of(n, k, row, column, body);
  }

 private:
  static std::size_t place(const std::array<int, 4>& sizes, int a, int b, int c, int d) {
    return static_cast<std::size_t>(((std::int64_t{a} * sizes[1] + b) * sizes[2] + c) * sizes[3] + d);
  }

  template <class Body>
  void for_each_product_of(int n, int k, int row, int column, const Body& body) const {
    const int first = k / (y[1] / groups) * weight[1];  // first channel of the group
    for (int c = 0; c < weight[1]; ++c) {
      for (int r = 0; r < weight[2]; ++r) {
        const int h = row * stride + r * dilation - padding;
        if (h < 0 || h >= x[2]) continue;
        for (int s = 0; s < weight[3]; ++s) {
          const int w = column * stride + s * dilation - padding;
          if (w < 0 || w >= x[3]) continue;
          body(place(x, n, first + c, h, w), place(weight, k, c, r, s), place(y, n, k, row, column));
        }
      }
    }
  }
};

geometry geometry_of(cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t weight, cudnnConvolutionDescriptor_t how,
                     cudnnTensorDescriptor_t y) {
  return {x->sizes,    weight->sizes, y->sizes,    how->padding,
          how->stride, how->dilation, how->groups, how->math != CUDNN_FMA_MATH};
}

/// One pass: its result is a sum of products of the other two arrays.
struct convolution_call {
  geometry shape;
  const float* x;
  const float* weight;
  const float* y;
  float* result;  ///< one of the three
  std::byte* workspace;
};

/// Sets the result's `count` numbers to 0, then calls term(index in x, in weight, in y) for all products.
template <class Term>
void sum_products(const convolution_call& call, std::int64_t count, const Term& term) {
  std::memset(call.workspace, 0, call.shape.workspace());
  std::fill_n(call.result, count, 0.0F);
  call.shape.for_each_product(term);
}

bool is_usable(const void* address, std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(address) % alignment == 0 &&
         find_place(address, static_cast<std::size_t>(bytes)) == place::device;
}

/// Returns why a call is refused, if it is.
cudnnStatus_t refusal(cudnnHandle_t handle, const convolution_call& call, const void* alpha, const void* beta,
                      bool is_known, std::size_t workspace_bytes) {
  const geometry& shape = call.shape;
  if (!shape.fits()) return CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH;
  if (*static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0 || !is_known)
    return CUDNN_STATUS_NOT_SUPPORTED;
  constexpr std::int64_t size = sizeof(float);
  if (!is_usable(call.x, count_of_lengths(shape.x) * size) ||
      !is_usable(call.weight, count_of_lengths(shape.weight) * size) ||
      !is_usable(call.y, count_of_lengths(shape.y) * size))
    return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
  if (workspace_bytes < shape.workspace()) return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
  if (!is_usable(call.workspace, static_cast<std::int64_t>(workspace_bytes))) return CUDNN_STATUS_BAD_PARAM;
  if (handle->stream == nullptr || handle->stream->device() != handle->device)
    return CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t put_on_stream(cudnnHandle_t handle, work task) {
  ++counted().launches;
  return enqueue(handle->stream, std::move(task)) == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

/// Lists the forbidden algorithms before the usable one.
template <class Performance, class Algorithm>
cudnnStatus_t list_algorithms(const geometry& shape, Algorithm in_any_order, Algorithm with_huge_workspace,
                              Algorithm usable, int wanted, int* found, Performance* list) {
  *found = 0;
  if (!shape.fits() || wanted < 1) return CUDNN_STATUS_BAD_PARAM;
  const cudnnMathType_t math = shape.rounds ? CUDNN_TENSOR_OP_MATH : CUDNN_DEFAULT_MATH;
  const Performance all[] = {
      {in_any_order, CUDNN_STATUS_SUCCESS, 1, 0, CUDNN_NON_DETERMINISTIC, math, {}},
      {with_huge_workspace, CUDNN_STATUS_SUCCESS, 2, huge_workspace, CUDNN_DETERMINISTIC, math, {}},
      {usable, CUDNN_STATUS_SUCCESS, 3, shape.workspace(), CUDNN_DETERMINISTIC, math, {}},
      {in_any_order, CUDNN_STATUS_NOT_SUPPORTED, -1, 0, CUDNN_DETERMINISTIC, math, {}},
  };
  for (const Performance& one : all)
    if (*found < wanted) list[(*found)++] = one;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

// -- handles and descriptors ------------------------------------------------------------------------------------------

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  TROUPE_CUDNN_CALL;
  if (usable() != cudaSuccess) return CUDNN_STATUS_NOT_INITIALIZED;
  if (captures() > 0) return CUDNN_STATUS_EXECUTION_FAILED;  // cudnnCreate allocates memory
  *handle = new cudnnContext{current_device(), nullptr};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  TROUPE_CUDNN_CALL;
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  TROUPE_CUDNN_CALL;
  if (stream == nullptr || stream->device() != handle->device) return CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH;
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

const char* cudnnGetErrorString(cudnnStatus_t status) {
  static constexpr std::pair<cudnnStatus_t, const char*> names[] = {
      {CUDNN_STATUS_SUCCESS, "CUDNN_STATUS_SUCCESS"},
      {CUDNN_STATUS_NOT_INITIALIZED, "CUDNN_STATUS_NOT_INITIALIZED"},
      {CUDNN_STATUS_BAD_PARAM, "CUDNN_STATUS_BAD_PARAM"},
      {CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER"},
      {CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT"},
      {CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH"},
      {CUDNN_STATUS_NOT_SUPPORTED, "CUDNN_STATUS_NOT_SUPPORTED"},
      {CUDNN_STATUS_EXECUTION_FAILED, "CUDNN_STATUS_EXECUTION_FAILED"}};
  const auto known = std::ranges::find(names, status, &std::pair<cudnnStatus_t, const char*>::first);
  return known != std::end(names) ? known->second : "a status that is not emulated";
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* made) {
  TROUPE_CUDNN_CALL;
  *made = new cudnnTensorStruct;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t old) {
  TROUPE_CUDNN_CALL;
  delete old;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format,
                                         cudnnDataType_t type, int n, int c, int h, int w) {
  TROUPE_CUDNN_CALL;
  if (format != CUDNN_TENSOR_NCHW || type != CUDNN_DATA_FLOAT) return CUDNN_STATUS_NOT_SUPPORTED;
  const std::array<int, 4> sizes{n, c, h, w};
  if (std::any_of(sizes.begin(), sizes.end(), [](int size) { return size < 1; })) return CUDNN_STATUS_BAD_PARAM;
  if (count_of_lengths(sizes) >= numbers_end) return CUDNN_STATUS_NOT_SUPPORTED;
  tensor->sizes = sizes;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* made) {
  TROUPE_CUDNN_CALL;
  *made = new cudnnFilterStruct;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t old) {
  TROUPE_CUDNN_CALL;
  delete old;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                         cudnnTensorFormat_t format, int k, int c, int h, int w) {
  TROUPE_CUDNN_CALL;
  if (format != CUDNN_TENSOR_NCHW || type != CUDNN_DATA_FLOAT) return CUDNN_STATUS_NOT_SUPPORTED;
  const std::array<int, 4> sizes{k, c, h, w};
  if (std::any_of(sizes.begin(), sizes.end(), [](int size) { return size < 1; })) return CUDNN_STATUS_BAD_PARAM;
  filter->sizes = sizes;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* made) {
  TROUPE_CUDNN_CALL;
  *made = new cudnnConvolutionStruct;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t old) {
  TROUPE_CUDNN_CALL;
  delete old;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t how, int pad_h, int pad_w, int stride_h,
                                              int stride_w, int dilation_h, int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t type) {
  TROUPE_CUDNN_CALL;
  if (pad_h < 0 || stride_h < 1 || dilation_h < 1) return CUDNN_STATUS_BAD_PARAM;
  if (pad_w != pad_h || stride_w != stride_h || dilation_w != dilation_h || mode != CUDNN_CROSS_CORRELATION ||
      type != CUDNN_DATA_FLOAT)
    return CUDNN_STATUS_NOT_SUPPORTED;
  how->padding = pad_h;
  how->stride = stride_h;
  how->dilation = dilation_h;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t how, int groups) {
  TROUPE_CUDNN_CALL;
  if (groups < 1) return CUDNN_STATUS_BAD_PARAM;
  how->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t how, cudnnMathType_t math) {
  TROUPE_CUDNN_CALL;
  if (math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) return CUDNN_STATUS_NOT_SUPPORTED;  // half precision
  how->math = math;
  return CUDNN_STATUS_SUCCESS;
}

// -- convolutions -----------------------------------------------------------------------------------------------------

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                     cudnnFilterDescriptor_t weight, cudnnConvolutionDescriptor_t how,
                                                     cudnnTensorDescriptor_t y, int wanted, int* found,
                                                     cudnnConvolutionFwdAlgoPerf_t* list) {
  TROUPE_CUDNN_CALL;
  return list_algorithms(geometry_of(x, weight, how, y), CUDNN_CONVOLUTION_FWD_ALGO_GEMM,
                         CUDNN_CONVOLUTION_FWD_ALGO_FFT, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, wanted,
                         found, list);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t, cudnnFilterDescriptor_t weight,
                                                          cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t how,
                                                          cudnnTensorDescriptor_t x, int wanted, int* found,
                                                          cudnnConvolutionBwdDataAlgoPerf_t* list) {
  TROUPE_CUDNN_CALL;
  return list_algorithms(geometry_of(x, weight, how, y), CUDNN_CONVOLUTION_BWD_DATA_ALGO_0,
                         CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, wanted, found, list);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t, cudnnTensorDescriptor_t x,
                                                            cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t how,
                                                            cudnnFilterDescriptor_t weight, int wanted, int* found,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t* list) {
  TROUPE_CUDNN_CALL;
  return list_algorithms(geometry_of(x, weight, how, y), CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0,
                         CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, wanted, found,
                         list);
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_form,
                                      const void* x, cudnnFilterDescriptor_t weight_form, const void* weight,
                                      cudnnConvolutionDescriptor_t how, cudnnConvolutionFwdAlgo_t algorithm,
                                      void* workspace, std::size_t bytes, const void* beta,
                                      cudnnTensorDescriptor_t y_form, void* y) {
  TROUPE_CUDNN_CALL;
  auto* const result = static_cast<float*>(y);
  const convolution_call call{geometry_of(x_form, weight_form, how, y_form),
                              static_cast<const float*>(x),
                              static_cast<const float*>(weight),
                              result,
                              result,
                              static_cast<std::byte*>(workspace)};
  const bool is_known = algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  if (const auto code = refusal(handle, call, alpha, beta, is_known, bytes); code != CUDNN_STATUS_SUCCESS) return code;
  return put_on_stream(handle, [call] {
    const geometry& g = call.shape;
    sum_products(call, count_of_lengths(g.y), [&](std::size_t at_x, std::size_t at_weight, std::size_t at_y) {
      call.result[at_y] += g.factor(call.x[at_x]) * g.factor(call.weight[at_weight]);
    });
  });
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t weight_form,
                                           const void* weight, cudnnTensorDescriptor_t y_form, const void* y,
                                           cudnnConvolutionDescriptor_t how, cudnnConvolutionBwdDataAlgo_t algorithm,
                                           void* workspace, std::size_t bytes, const void* beta,
                                           cudnnTensorDescriptor_t x_form, void* x) {
  TROUPE_CUDNN_CALL;
  auto* const result = static_cast<float*>(x);
  const convolution_call call{geometry_of(x_form, weight_form, how, y_form),
                              result,
                              static_cast<const float*>(weight),
                              static_cast<const float*>(y),
                              result,
                              static_cast<std::byte*>(workspace)};
  const bool is_known = algorithm == CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
  if (const auto code = refusal(handle, call, alpha, beta, is_known, bytes); code != CUDNN_STATUS_SUCCESS) return code;
  return put_on_stream(handle, [call] {
    const geometry& g = call.shape;
    sum_products(call, count_of_lengths(g.x), [&](std::size_t at_x, std::size_t at_weight, std::size_t at_y) {
      call.result[at_x] += g.factor(call.y[at_y]) * g.factor(call.weight[at_weight]);
    });
  });
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_form,
                                             const void* x, cudnnTensorDescriptor_t y_form, const void* y,
                                             cudnnConvolutionDescriptor_t how,
                                             cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                             std::size_t bytes, const void* beta, cudnnFilterDescriptor_t weight_form,
                                             void* weight) {
  TROUPE_CUDNN_CALL;
  auto* const result = static_cast<float*>(weight);
  const convolution_call call{geometry_of(x_form, weight_form, how, y_form),
                              static_cast<const float*>(x),
                              result,
                              static_cast<const float*>(y),
                              result,
                              static_cast<std::byte*>(workspace)};
  const bool is_known = algorithm == CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
  if (const auto code = refusal(handle, call, alpha, beta, is_known, bytes); code != CUDNN_STATUS_SUCCESS) return code;
  return put_on_stream(handle, [call] {
    const geometry& g = call.shape;
    sum_products(call, count_of_lengths(g.weight), [&](std::size_t at_x, std::size_t at_weight, std::size_t at_y) {
      call.result[at_weight] += g.factor(call.y[at_y]) * g.factor(call.x[at_x]);
    });
  });
}
