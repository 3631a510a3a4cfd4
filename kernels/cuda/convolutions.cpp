// Convolutions by cuDNN: descriptors, choice of algorithm, and calls.

#include "kernels/cuda/convolutions.hpp"

#include <string>

#include "kernels/cuda/cudnn_library.hpp"

namespace troupe::kernels::cuda {
namespace {

/// Owns a descriptor of cuDNN; `Create` and `Destroy` are members of the library.
template <class Handle, auto Create, auto Destroy>
class owned_descriptor {
 public:
  explicit owned_descriptor(const char* call) { check((cudnn().*Create)(&handle), call); }
  ~owned_descriptor() { (cudnn().*Destroy)(handle); }
  owned_descriptor(const owned_descriptor&) = delete;
  owned_descriptor& operator=(const owned_descriptor&) = delete;

  Handle handle = nullptr;
};

using image_descriptor = owned_descriptor<cudnnTensorDescriptor_t, &cudnn_library::cudnnCreateTensorDescriptor,
                                          &cudnn_library::cudnnDestroyTensorDescriptor>;
using weight_descriptor = owned_descriptor<cudnnFilterDescriptor_t, &cudnn_library::cudnnCreateFilterDescriptor,
                                           &cudnn_library::cudnnDestroyFilterDescriptor>;
using convolution_descriptor =
    owned_descriptor<cudnnConvolutionDescriptor_t, &cudnn_library::cudnnCreateConvolutionDescriptor,
                     &cudnn_library::cudnnDestroyConvolutionDescriptor>;

/// The largest workspace of an algorithm, if there is another algorithm.
constexpr std::size_t usual_workspace_bytes = std::size_t{256} << 20;

/// More than cuDNN has for any pass.
constexpr int algorithms_max = 32;

bool is_plain(cudnnMathType_t math) { return math == CUDNN_DEFAULT_MATH || math == CUDNN_FMA_MATH; }

/// An algorithm, and the memory that it needs.
struct chosen_algorithm {
  int number = -1;  ///< none chosen
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  std::size_t workspace = 0;
};

/// Chooses from the list that `get(count, &found, list)` fills, the fastest first, among algorithms whose sums have a
/// fixed order: the first with a usual workspace, or else the one with the smallest. For float32, none that rounds
/// factors.
template <class Performance, class Get>
chosen_algorithm choose(bool in_f32, const char* call, const Get& get) {
  Performance listed[algorithms_max];
  int found = 0;
  check(get(algorithms_max, &found, listed), call);
  chosen_algorithm best;
  for (int i = 0; i < found; ++i) {
    const Performance& one = listed[i];
    const bool is_usable = one.status == CUDNN_STATUS_SUCCESS && one.determinism == CUDNN_DETERMINISTIC &&
                           (in_f32 ? is_plain(one.mathType) : one.mathType != CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION);
    if (!is_usable || (best.number >= 0 && one.memory >= best.workspace)) continue;
    // For float32, cuDNN may list its default mode, which would round.
    best = {static_cast<int>(one.algo), in_f32 ? CUDNN_FMA_MATH : one.mathType, one.memory};
    if (best.workspace <= usual_workspace_bytes) break;
  }
  return best;
}

std::string text_of(const convolution_key& key) {
  const auto sizes = [](std::size_t a, std::size_t b, std::size_t c, std::size_t d) {
    return "[" + std::to_string(a) + ", " + std::to_string(b) + ", " + std::to_string(c) + ", " + std::to_string(d) +
           "]";
  };
  const conv2d_shape& s = key.shape;
  return sizes(key.batch, s.in_channels, s.height, s.width) + " by " +
         sizes(s.out_channels, s.in_channels / s.groups, s.kernel, s.kernel) + " (stride " + std::to_string(s.stride) +
         ", padding " + std::to_string(s.padding) + ", dilation " + std::to_string(s.dilation) + ")";
}

void set(const image_descriptor& image, std::size_t batch, std::size_t channels, std::size_t height,
         std::size_t width) {
  check(
      cudnn().cudnnSetTensor4dDescriptor(image.handle, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, static_cast<int>(batch),
                                         static_cast<int>(channels), static_cast<int>(height), static_cast<int>(width)),
      "cudnnSetTensor4dDescriptor");
}

}  // namespace

struct convolutions::plan {
  image_descriptor x{"cudnnCreateTensorDescriptor"};
  image_descriptor y{"cudnnCreateTensorDescriptor"};
  weight_descriptor weight{"cudnnCreateFilterDescriptor"};
  convolution_descriptor how{"cudnnCreateConvolutionDescriptor"};
  chosen_algorithm algorithm;
};

convolutions::convolutions(cudaStream_t stream, matmul_precision precision) : precision_(precision) {
  check(cudnn().cudnnCreate(&handle_), "cudnnCreate");
  const cudnnStatus_t code = cudnn().cudnnSetStream(handle_, stream);
  if (code != CUDNN_STATUS_SUCCESS) cudnn().cudnnDestroy(handle_);
  check(code, "cudnnSetStream");
}

convolutions::~convolutions() {
  plans_.clear();
  cudnn().cudnnDestroy(handle_);
}

/// There are no convolutions in bf16: they round to tf32. The conversion that cuDNN offers is to half precision, which
/// overflows.
std::unique_ptr<convolutions::plan> convolutions::make_plan(const convolution_key& key) const {
  const conv2d_shape& s = key.shape;
  const bool in_f32 = precision_ == matmul_precision::f32;
  auto made = std::make_unique<plan>();
  plan& p = *made;
  const int kernel = static_cast<int>(s.kernel);
  const int stride = static_cast<int>(s.stride);
  const int padding = static_cast<int>(s.padding);
  const int dilation = static_cast<int>(s.dilation);
  set(p.x, key.batch, s.in_channels, s.height, s.width);
  set(p.y, key.batch, s.out_channels, s.out_height(), s.out_width());
  check(cudnn().cudnnSetFilter4dDescriptor(p.weight.handle, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW,
                                           static_cast<int>(s.out_channels), static_cast<int>(s.in_channels / s.groups),
                                           kernel, kernel),
        "cudnnSetFilter4dDescriptor");
  const cudnnConvolutionDescriptor_t how = p.how.handle;
  check(cudnn().cudnnSetConvolution2dDescriptor(how, padding, padding, stride, stride, dilation, dilation,
                                                CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
        "cudnnSetConvolution2dDescriptor");
  check(cudnn().cudnnSetConvolutionGroupCount(how, static_cast<int>(s.groups)), "cudnnSetConvolutionGroupCount");
  check(cudnn().cudnnSetConvolutionMathType(how, in_f32 ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH),
        "cudnnSetConvolutionMathType");
  switch (key.pass) {
    case convolution_pass::forward:
      p.algorithm = choose<cudnnConvolutionFwdAlgoPerf_t>(
          in_f32, "cudnnGetConvolutionForwardAlgorithm_v7", [&](int most, int* found, auto* list) {
            return cudnn().cudnnGetConvolutionForwardAlgorithm_v7(handle_, p.x.handle, p.weight.handle, how, p.y.handle,
                                                                  most, found, list);
          });
      break;
    case convolution_pass::backward_input:
      p.algorithm = choose<cudnnConvolutionBwdDataAlgoPerf_t>(
          in_f32, "cudnnGetConvolutionBackwardDataAlgorithm_v7", [&](int most, int* found, auto* list) {
            return cudnn().cudnnGetConvolutionBackwardDataAlgorithm_v7(handle_, p.weight.handle, p.y.handle, how,
                                                                       p.x.handle, most, found, list);
          });
      break;
    case convolution_pass::backward_weight:
      p.algorithm = choose<cudnnConvolutionBwdFilterAlgoPerf_t>(
          in_f32, "cudnnGetConvolutionBackwardFilterAlgorithm_v7", [&](int most, int* found, auto* list) {
            return cudnn().cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle_, p.x.handle, p.y.handle, how,
                                                                         p.weight.handle, most, found, list);
          });
      break;
  }
  if (p.algorithm.number < 0)
    throw device_error(
        "cuDNN knows no convolution of " + text_of(key) +
        " on this device whose sums have a fixed order; try smaller batches (--batch-size), or --device cpu");
  check(cudnn().cudnnSetConvolutionMathType(how, p.algorithm.math), "cudnnSetConvolutionMathType");
  return made;
}

std::size_t convolutions::workspace_bytes(const convolution_key& key) {
  auto known = plans_.find(key);
  if (known == plans_.end()) known = plans_.emplace(key, make_plan(key)).first;
  return known->second->algorithm.workspace;
}

void convolutions::run(const convolution_key& key, const convolution_operands& operands, std::byte* workspace) {
  const plan& p = *plans_.at(key);
  const float one = 1;
  const float zero = 0;
  const int number = p.algorithm.number;
  const std::size_t bytes = p.algorithm.workspace;
  switch (key.pass) {
    case convolution_pass::forward:
      return check(cudnn().cudnnConvolutionForward(
                       handle_, &one, p.x.handle, operands.x, p.weight.handle, operands.weight, p.how.handle,
                       static_cast<cudnnConvolutionFwdAlgo_t>(number), workspace, bytes, &zero, p.y.handle, operands.y),
                   "cudnnConvolutionForward");
    case convolution_pass::backward_input:
      return check(
          cudnn().cudnnConvolutionBackwardData(handle_, &one, p.weight.handle, operands.weight, p.y.handle, operands.y,
                                               p.how.handle, static_cast<cudnnConvolutionBwdDataAlgo_t>(number),
                                               workspace, bytes, &zero, p.x.handle, operands.x),
          "cudnnConvolutionBackwardData");
    case convolution_pass::backward_weight:
      return check(
          cudnn().cudnnConvolutionBackwardFilter(handle_, &one, p.x.handle, operands.x, p.y.handle, operands.y,
                                                 p.how.handle, static_cast<cudnnConvolutionBwdFilterAlgo_t>(number),
                                                 workspace, bytes, &zero, p.weight.handle, operands.weight),
          "cudnnConvolutionBackwardFilter");
  }
}

}  // namespace troupe::kernels::cuda
