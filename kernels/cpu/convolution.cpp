// Convolutions by oneDNN, on the calling thread.
//
// oneDNN's fast kernels need the channels last, so images are transposed before and after. Shape, batch and instruction
// set determine its kernel, and so the order of sums. It runs on one thread: with several, sums depend on the number of
// threads, and actors run one per thread.

#include <hwy/aligned_allocator.h>

#include <algorithm>
#include <dnnl.hpp>
#include <map>
#include <tuple>
#include <unordered_map>

#include "kernels/cpu/cpu_stream.hpp"
#include "kernels/cpu/small_product.hpp"

extern "C" void omp_set_num_threads(int count);  // of libgomp; its header is in gcc's own folder

namespace troupe::kernels {
namespace {

using dnnl::memory;
using dnnl::prop_kind;

/// Identifies a primitive: the shape, the batch, the pass, and whether there is a bias.
using convolution_key = std::tuple<conv2d_shape, std::size_t, prop_kind, bool>;

/// A primitive, and its arguments, whose data is set before each use.
struct convolution {
  dnnl::primitive primitive;
  memory x, weight, bias, y, scratchpad;
};

/// Memory that grows and is reused. Its content is not kept.
class scratch_numbers {
 public:
  float* buffer(std::size_t count) {
    if (count > count_) {
      numbers_ = hwy::AllocateAligned<float>(count);
      if (!numbers_) throw std::bad_alloc();
      count_ = count;
    }
    return numbers_.get();
  }

 private:
  hwy::AlignedFreeUniquePtr<float[]> numbers_;
  std::size_t count_ = 0;
};

const dnnl::engine& engine() {
  static const dnnl::engine of_processor(dnnl::engine::kind::cpu, 0);
  return of_processor;
}

/// A thread's convolutions and their memory.
struct convolution_state {
  dnnl::stream stream{engine()};
  std::map<convolution_key, convolution> convolutions;
  scratch_numbers x, weight, y, scratchpad;
};

convolution_state& state() {
  omp_set_num_threads(1);  // for parallel regions of this thread
  thread_local convolution_state of_thread;
  return of_thread;
}

memory::dim dim(std::size_t x) { return static_cast<memory::dim>(x); }

/// oneDNN has the groups as a separate dimension.
memory::desc plain_weight(const conv2d_shape& s) {
  const auto f32 = memory::data_type::f32;
  const memory::dim kernel = dim(s.kernel);
  if (s.groups == 1) return {{dim(s.out_channels), dim(s.in_channels), kernel, kernel}, f32, memory::format_tag::oihw};
  return {{dim(s.groups), dim(s.out_channels / s.groups), dim(s.in_channels / s.groups), kernel, kernel},
          f32,
          memory::format_tag::goihw};
}

convolution make_convolution(const convolution_key& key) {
  const auto& [s, batch, pass, with_bias] = key;
  const auto f32 = memory::data_type::f32;
  const memory::desc x({dim(batch), dim(s.in_channels), dim(s.height), dim(s.width)}, f32, memory::format_tag::nhwc);
  const memory::desc y({dim(batch), dim(s.out_channels), dim(s.out_height()), dim(s.out_width())}, f32,
                       memory::format_tag::nhwc);
  const memory::desc weight(plain_weight(s).dims(), f32, memory::format_tag::any);
  const memory::desc bias =
      with_bias ? memory::desc({dim(s.out_channels)}, f32, memory::format_tag::a) : memory::desc();
  const memory::dims strides(2, dim(s.stride));
  const memory::dims gaps(2, dim(s.dilation - 1));
  const memory::dims padding(2, dim(s.padding));
  const auto direct = dnnl::algorithm::convolution_direct;
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_fpmath_mode(dnnl::fpmath_mode::strict);

  const auto made = [&](const auto& description, const memory::desc& weight_form) {
    const auto without_data = [](const memory::desc& form) { return memory(form, engine(), nullptr); };
    return convolution{dnnl::primitive(description), without_data(x), without_data(weight_form),
                       without_data(bias),           without_data(y), without_data(description.scratchpad_desc())};
  };
  const dnnl::convolution_forward::primitive_desc forward(
      {prop_kind::forward_training, direct, x, weight, bias, y, strides, gaps, padding, padding}, attributes, engine());
  if (pass == prop_kind::backward_data) {
    const dnnl::convolution_backward_data::primitive_desc backward(
        {direct, x, weight, y, strides, gaps, padding, padding}, attributes, engine(), forward);
    return made(backward, backward.weights_desc());
  }
  if (pass == prop_kind::backward_weights) {
    const dnnl::convolution_backward_weights::primitive_desc backward(
        {direct, x, weight, bias, y, strides, gaps, padding, padding}, attributes, engine(), forward);
    return made(backward, backward.diff_weights_desc());
  }
  return made(forward, forward.weights_desc());
}

/// Returns the thread's convolution for `key`; makes it if it is new.
convolution& find_convolution(convolution_state& with, const convolution_key& key) {
  constexpr std::size_t most = 256;  // batches of many sizes are rare
  if (const auto found = with.convolutions.find(key); found != with.convolutions.end()) return found->second;
  if (with.convolutions.size() >= most) with.convolutions.clear();
  return with.convolutions.emplace(key, make_convolution(key)).first->second;
}

/// The sizes of images, with the channels first or last.
struct image_form {
  std::size_t batch, channels, area;

  std::size_t count() const { return batch * channels * area; }
  bool same() const { return channels == 1 || area == 1; }
};

/// Returns x with the channels last, in `scratch` if they are not.
float* channels_last(const image_form& form, const float* x, scratch_numbers& scratch) {
  if (form.same()) return const_cast<float*>(x);  // oneDNN's handles are not const; it only reads
  float* const to = scratch.buffer(form.count());
  const std::size_t step = form.channels * form.area;
  for (std::size_t b = 0; b < form.batch; ++b) transpose(form.channels, form.area, x + b * step, to + b * step);
  return to;
}

/// Returns the address for a primitive's result, which `store_channels_first` copies to y.
float* result_buffer(const image_form& form, float* y, scratch_numbers& scratch) {
  return form.same() ? y : scratch.buffer(form.count());
}

void store_channels_first(const image_form& form, const float* from, float* y) {
  const std::size_t step = form.channels * form.area;
  for (std::size_t b = 0; b < form.batch && from != y; ++b)
    transpose(form.area, form.channels, from + b * step, y + b * step);
}

image_form x_form(const conv2d_shape& s, std::size_t batch) { return {batch, s.in_channels, s.height * s.width}; }

image_form y_form(const conv2d_shape& s, std::size_t batch) {
  return {batch, s.out_channels, s.out_height() * s.out_width()};
}

std::size_t numbers_of(const memory& m) { return m.get_desc().get_size() / sizeof(float) + 1; }

/// Sets the weight of `to` to the plain `weight`, in the primitive's format.
void set_weight(convolution_state& with, convolution& to, const conv2d_shape& s, const float* weight) {
  memory plain(plain_weight(s), engine(), const_cast<float*>(weight));  // read only
  if (to.weight.get_desc() == plain.get_desc()) {
    to.weight.set_data_handle(plain.get_data_handle());
    return;
  }
  to.weight.set_data_handle(with.weight.buffer(numbers_of(to.weight)));
  dnnl::reorder(plain, to.weight).execute(with.stream, plain, to.weight);
}

void run(convolution_state& with, convolution& what, const std::unordered_map<int, memory>& arguments) {
  what.scratchpad.set_data_handle(with.scratchpad.buffer(numbers_of(what.scratchpad)));
  what.primitive.execute(with.stream, arguments);
  with.stream.wait();
}

}  // namespace

void cpu_stream::conv2d_forward(const conv2d_shape& shape, std::size_t batch, const float* x, const float* weight,
                                const float* bias, float* y) {
  const image_form out = y_form(shape, batch);
  if (out.count() == 0) return;
  convolution_state& with = state();
  convolution& c = find_convolution(with, {shape, batch, prop_kind::forward_training, bias != nullptr});
  set_weight(with, c, shape, weight);
  c.x.set_data_handle(channels_last(x_form(shape, batch), x, with.x));
  c.bias.set_data_handle(const_cast<float*>(bias));  // read only
  float* const result = result_buffer(out, y, with.y);
  c.y.set_data_handle(result);
  run(with, c,
      {{DNNL_ARG_SRC, c.x},
       {DNNL_ARG_WEIGHTS, c.weight},
       {DNNL_ARG_BIAS, c.bias},
       {DNNL_ARG_DST, c.y},
       {DNNL_ARG_SCRATCHPAD, c.scratchpad}});
  store_channels_first(out, result, y);
}

void cpu_stream::conv2d_backward_input(const conv2d_shape& shape, std::size_t batch, const float* weight,
                                       const float* grad_y, float* grad_x) {
  const image_form in = x_form(shape, batch);
  const image_form out = y_form(shape, batch);
  if (out.count() == 0) {
    std::fill_n(grad_x, in.count(), 0.0F);
    return;
  }
  convolution_state& with = state();
  convolution& c = find_convolution(with, {shape, batch, prop_kind::backward_data, false});
  set_weight(with, c, shape, weight);
  c.y.set_data_handle(channels_last(out, grad_y, with.y));
  float* const result = result_buffer(in, grad_x, with.x);
  c.x.set_data_handle(result);
  run(with, c,
      {{DNNL_ARG_DIFF_DST, c.y},
       {DNNL_ARG_WEIGHTS, c.weight},
       {DNNL_ARG_DIFF_SRC, c.x},
       {DNNL_ARG_SCRATCHPAD, c.scratchpad}});
  store_channels_first(in, result, grad_x);
}

void cpu_stream::conv2d_backward_parameters(const conv2d_shape& shape, std::size_t batch, const float* x,
                                            const float* grad_y, float* grad_weight, float* grad_bias) {
  const image_form out = y_form(shape, batch);
  if (out.count() == 0) {
    std::fill_n(grad_weight, shape.weights(), 0.0F);
    if (grad_bias != nullptr) std::fill_n(grad_bias, shape.out_channels, 0.0F);
    return;
  }
  convolution_state& with = state();
  convolution& c = find_convolution(with, {shape, batch, prop_kind::backward_weights, grad_bias != nullptr});
  c.x.set_data_handle(channels_last(x_form(shape, batch), x, with.x));
  c.y.set_data_handle(channels_last(out, grad_y, with.y));
  c.bias.set_data_handle(grad_bias);
  memory plain(plain_weight(shape), engine(), grad_weight);
  const bool is_plain = c.weight.get_desc() == plain.get_desc();
  c.weight.set_data_handle(is_plain ? grad_weight : with.weight.buffer(numbers_of(c.weight)));
  run(with, c,
      {{DNNL_ARG_SRC, c.x},
       {DNNL_ARG_DIFF_DST, c.y},
       {DNNL_ARG_DIFF_WEIGHTS, c.weight},
       {DNNL_ARG_DIFF_BIAS, c.bias},
       {DNNL_ARG_SCRATCHPAD, c.scratchpad}});
  if (is_plain) return;
  dnnl::reorder(c.weight, plain).execute(with.stream, c.weight, plain);
  with.stream.wait();
}

}  // namespace troupe::kernels
