#include "model/layers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "model/random.hpp"

namespace troupe::model {

namespace {

// Most numbers of a sample.
constexpr std::size_t sample_max = (std::size_t{1} << 31) - 1;

bool takes_features(layer_kind kind) {
  return kind == layer_kind::linear || kind == layer_kind::layer_norm || kind == layer_kind::low_rank_cross;
}

bool takes_images(layer_kind kind) {
  return kind == layer_kind::conv2d || kind == layer_kind::max_pool2d || kind == layer_kind::avg_pool2d ||
         kind == layer_kind::global_avg_pool2d;
}

// A sample that has the wrong number of lengths, for after "its input ".
std::string shown_sample(const sample_shape& in) {
  if (in.size() == 1) return fmt::format("has {} features", in[0]);
  return fmt::format("is {} of {}", in.size() == 2 ? "a sequence" : "an image", to_string(in));
}

std::optional<std::string> sequence_fault(const layer_spec& spec, const sample_shape& in) {
  const bool has_rows = in.size() > 1;
  if (has_rows ? in.size() == 3 && in[0] != 1 : spec.steps == 0)
    return fmt::format("takes sequences of steps x features, which an image of 1 channel is too, and its input {}; {}",
                       shown_sample(in),
                       has_rows ? "put another layer before it" : "say how many steps they are (steps)");
  const auto sequence = sequence_of(spec, in);
  if (!sequence)
    return fmt::format("takes sequences of {} steps, and its input {}; take another number of steps", spec.steps,
                       shown_sample(in));
  if (!spec.last && (*sequence)[0] > sample_max / spec.hidden)
    return fmt::format("its output of {} x {} has more than {} numbers a sample; take a smaller hidden or last = true",
                       (*sequence)[0], spec.hidden, sample_max);
  return std::nullopt;
}

// Why a layer cannot take samples of shape `in`, for after "layer 2 (conv2d): "; null: it can.
std::optional<std::string> shape_fault(const layer_spec& spec, const sample_shape& in) {
  if (takes_features(spec.kind) && in.size() != 1)
    return fmt::format("takes [features], and its input {}; put a flatten layer before it", shown_sample(in));
  if (takes_images(spec.kind) && in.size() != 3)
    return fmt::format("takes images of channels x height x width, and its input {}; leave it out", shown_sample(in));
  if (spec.kind == layer_kind::batch_norm && in.size() == 2)
    return fmt::format("takes features or images, and its input {}; put a flatten layer before it", shown_sample(in));
  if (spec.kind == layer_kind::lstm) return sequence_fault(spec, in);
  if (spec.kind == layer_kind::conv2d) {
    const auto shape = conv2d_shape_of(spec, in);
    if (shape.out_height() == 0 || shape.out_width() == 0)
      return fmt::format(
          "its kernel of {0} x {0} does not fit into an image of {1} with a padding of {2}; take a "
          "smaller kernel or more padding",
          spec.kernel, to_string(in), spec.padding);
    if (shape.outputs() > sample_max)
      return fmt::format(
          "its output of {} x {} x {} has more than {} numbers a sample, and its input is {}; take fewer "
          "channels or a larger stride",
          shape.out_channels, shape.out_height(), shape.out_width(), sample_max, to_string(in));
  } else if (takes_images(spec.kind)) {
    const auto shape = pool2d_shape_of(spec, in);
    if (shape.out_height() == 0 || shape.out_width() == 0)
      return fmt::format("its kernel of {0} x {0} does not fit into an image of {1}; take a smaller kernel",
                         spec.kernel, to_string(in));
  }
  return std::nullopt;
}

layer_ptr made_layer(const layer_spec& spec, const sample_shape& in) {
  switch (spec.kind) {
    case layer_kind::linear:
      return make_linear(spec, in);
    case layer_kind::relu:
      return make_relu(in);
    case layer_kind::gelu:
      return make_gelu(in);
    case layer_kind::dropout:
      return make_dropout(spec, in);
    case layer_kind::conv2d:
      return make_conv2d(spec, in);
    case layer_kind::max_pool2d:
    case layer_kind::avg_pool2d:
    case layer_kind::global_avg_pool2d:
      return make_pool2d(spec, in);
    case layer_kind::flatten:
      return make_flatten(in);
    case layer_kind::batch_norm:
      return make_batch_norm(spec, in);
    case layer_kind::layer_norm:
      return make_layer_norm(spec, in);
    case layer_kind::low_rank_cross:
      return make_low_rank_cross(spec, in);
    case layer_kind::lstm:
      return make_lstm(spec, in);
    case layer_kind::residual:
      break;  // made of layers that may be refused
  }
  return nullptr;
}

}  // namespace

std::size_t count_of(const std::vector<named_parameter>& tensors) {
  std::size_t count = 0;
  for (const named_parameter& one : tensors) count += one.count();
  return count;
}

void fill_uniform(std::uint64_t key, std::size_t first, std::size_t count, std::size_t fan_in, float* weights) {
  const auto bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(fan_in)));
  for (std::size_t i = 0; i < count; ++i) weights[i] = uniform(key, first + i, -bound, bound);
}

result<layer_ptr> make_layer(const layer_spec& spec, std::size_t number, const sample_shape& in) {
  const auto named = [&](const std::string& fault) {
    return bad_input("layer {} ({}): {}", number, to_string(spec.kind), fault);
  };
  if (const auto fault = shape_fault(spec, in)) return named(*fault);
  if (spec.kind != layer_kind::residual) return made_layer(spec, in);
  auto inner = make_layers(spec.inner, in);
  if (!inner) return named(inner.error().message);
  const sample_shape out = inner->empty() ? in : inner->back()->out();
  if (inner->empty() || out != in)
    return named(fmt::format("its layers make {} of {}, and it adds both; make the shapes equal", to_string(out),
                             to_string(in)));
  return make_residual(in, std::move(*inner));
}

result<std::vector<layer_ptr>> make_layers(const std::vector<layer_spec>& specs, const sample_shape& in) {
  std::vector<layer_ptr> layers;
  sample_shape shape = in;
  for (const layer_spec& spec : specs) {
    TROUPE_TRY(made, make_layer(spec, layers.size(), shape));
    shape = made->out();
    layers.push_back(std::move(made));
  }
  return layers;
}

}  // namespace troupe::model
