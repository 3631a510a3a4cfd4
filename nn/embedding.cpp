#include "nn/embedding.hpp"

#include <fmt/format.h>

#include "kernels/device.hpp"
#include "nn/option_fields.hpp"
#include "nn/samples.hpp"

namespace troupe::nn {

namespace {

constexpr std::size_t ids_max = std::size_t{1} << 24;  // float32 represents all whole numbers up to here

std::size_t ids_of_sample(const tensor_view& input) { return input.count() / input.shape()[0]; }

}  // namespace

const option_fields<embedding_options>& embedding_options::fields() {
  static const auto all = option_fields<embedding_options>()
                              .whole("rows", &embedding_options::rows, 1, ids_max)
                              .whole("dim", &embedding_options::dim, 1, layer_width_max)
                              .whole("positions", &embedding_options::positions, 1, layer_width_max, false)
                              .real("scale", &embedding_options::scale, "a number above 0 and at most 65536",
                                    [](double x) { return static_cast<float>(x) > 0 && x <= 65536; });
  return all;
}

embedding::embedding(const options& chosen) : layer(checked(chosen)) {}

std::vector<parameter> embedding::parameters() const {
  std::vector<parameter> all{{"weight", {chosen_.rows, chosen_.dim}}};
  if (chosen_.positions > 0) all.push_back({"positions", {chosen_.positions, chosen_.dim}});
  return all;
}

void embedding::initialize(std::uint64_t key, const tensor_list<float>& parameters,
                           const tensor_list<float>& /*buffers*/) const {
  kernels::draw_normals(key, count_of(this->parameters()), parameters.data());
}

troupe::shape embedding::output(const tensor_view& input) const {
  const troupe::shape sample = sample_of(*this, input);
  if (sample.dimensions() == 2 || (sample.dimensions() == 3 && sample[0] != 1))
    refuse(*this, fmt::format("takes ids, as features or as an image of 1 channel, and its input {}; leave it out, or "
                              "put it first",
                              sample_text(sample)));
  const std::size_t ids = sample.count();
  if (chosen_.positions > 0 && ids > chosen_.positions)
    refuse(*this, fmt::format("has {} positions, and its input {}; take {} positions or more, or shorter samples",
                              chosen_.positions, sample_text(sample), ids));
  if (ids > sample_max / chosen_.dim)
    refuse(*this, fmt::format("its output of {} x {} has more than {} numbers a sample; take a smaller dim", ids,
                              chosen_.dim, sample_max));
  return {input.shape()[0], ids, chosen_.dim};
}

std::size_t embedding::saved(const tensor_view& input, const kernels::stream& /*on*/) const {
  return chosen_.scale == 1 ? 0 : input.count();
}

void embedding::forward(const pass& how, const pass_numbers& numbers) const {
  const std::size_t count = numbers.input.count();
  if (chosen_.scale != 1) {
    how.stream.copy(numbers.input.data(), numbers.saved.data(), count * sizeof(float));
    how.stream.multiply(count, static_cast<float>(chosen_.scale), numbers.saved.data());
  }
  how.stream.embedding_forward(count, chosen_.rows, chosen_.dim, ids_of(numbers), numbers.parameters[0].data(),
                               numbers.output.data());
  if (chosen_.positions == 0) return;
  const std::size_t width = ids_of_sample(numbers.input) * chosen_.dim;
  how.stream.add_columns(numbers.input.shape()[0], width, {numbers.parameters[1].data(), 0},
                         {numbers.output.data(), width});
}

void embedding::backward(const pass& how, const pass_numbers& numbers, const gradients& of) const {
  if (of.input) how.stream.fill(of.input.size(), 0, of.input.data());
  if (!of.parameters) return;
  how.stream.embedding_backward(numbers.input.count(), chosen_.rows, chosen_.dim, ids_of(numbers), of.output.data(),
                                of.parameters[0].data());
  if (chosen_.positions == 0) return;
  const std::size_t width = ids_of_sample(numbers.input) * chosen_.dim;
  std::vector<const float*> samples(numbers.input.shape()[0]);
  for (std::size_t b = 0; b < samples.size(); ++b) samples[b] = of.output.data() + b * width;
  how.stream.sum_in_rank_order(samples, width, 1.0F, of.parameters[1].data());
  how.stream.fill(of.parameters[1].size() - width, 0, of.parameters[1].data() + width);
}

}  // namespace troupe::nn
