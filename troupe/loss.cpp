#include "troupe/loss.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/device.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/tape.hpp"

namespace troupe::nn {

namespace {

/// A loss computes its gradient in the forward pass; `backward` multiplies it by the loss's own gradient.
class loss_node final : public runtime::node {
 public:
  /// `spoilt`: see `node`.
  loss_node(runtime::node* source, tensor grad_outputs, std::string spoilt = {})
      : source_(source), grad_outputs_(std::move(grad_outputs)), spoilt_(std::move(spoilt)) {}

  std::string spoilt() const override { return spoilt_; }

  void finish(runtime::tape& /*on*/) override {
    grad = {};
    grad_outputs_ = {};
  }
  void backward(runtime::tape& on) override {
    if (source_ == nullptr) return;
    if (const float factor = grad.as<float>()[0]; factor != 1)
      kernels::host_stream().multiply(grad_outputs_.count(), factor, grad_outputs_.as<float>().data());
    on.give(*source_, std::move(grad_outputs_));
  }

 private:
  runtime::node* source_;
  tensor grad_outputs_;
  std::string spoilt_;
};

/// Throws unless a loss can be computed from these tensors.
void check_targets(const char* loss, const tensor& outputs, const tensor& targets) {
  const bool fit = outputs.type() == dtype::f32 && targets.type() == dtype::f32 && outputs.shape() == targets.shape() &&
                   outputs.count() > 0 && targets.count() > 0;
  if (!fit)
    throw error(
        error_kind::input,
        fmt::format("{}: outputs {} of {} and targets {} of {}; it takes two of one shape, of float32, at least "
                    "1 number each",
                    loss, to_string(outputs.shape()), name_of(outputs.type()), to_string(targets.shape()),
                    name_of(targets.type())));
}

/// If the loss is not finite and the context has not computed the outputs, says where they are not finite; else "".
std::string spoilt_outputs(const char* name, const tensor& loss, const tensor& outputs, const runtime::node* source) {
  if (source != nullptr || std::isfinite(loss.item())) return {};
  const std::string where = runtime::where_spoilt(outputs);
  return where.empty() ? "" : fmt::format("the first input of {} {}; {}", name, where, runtime::given_spoilt);
}

/// Computes a loss whose kernel is (count, 1, outputs, targets, grad, loss).
template <class Kernel>
tensor loss_of(context& in, const char* name, const tensor& outputs, const tensor& targets, Kernel kernel) {
  tensor grad(outputs.shape());
  tensor loss(shape(1), dtype::f64);
  (kernels::host_stream().*kernel)(outputs.count(), 1, outputs.as<float>().data(), targets.as<float>().data(),
                                   grad.as<float>().data(), loss.as<double>().data());
  runtime::tape& tape = in.tape();
  runtime::node* const source = tape.maker_of(outputs);
  std::string spoilt = spoilt_outputs(name, loss, outputs, source);
  if (!std::isfinite(loss.as<double>()[0]))
    if (const auto where = runtime::where_spoilt(targets); !where.empty())
      spoilt = fmt::format("the target of {} {}; look at the data", name, where);
  return tape.add(std::move(loss), std::make_shared<loss_node>(source, std::move(grad), std::move(spoilt)));
}

}  // namespace

tensor mse_loss(context& in, const tensor& outputs, const tensor& targets) {
  check_targets("mse_loss", outputs, targets);
  return loss_of(in, "mse_loss", outputs, targets, &kernels::stream::mean_squared_error);
}

tensor bce_with_logits(context& in, const tensor& outputs, const tensor& targets) {
  check_targets("bce_with_logits", outputs, targets);
  const auto numbers = targets.as<float>();
  const auto wrong = std::ranges::find_if(numbers, [](float one) { return !(one >= 0 && one <= 1); });
  if (wrong != numbers.end())
    throw error(error_kind::input, fmt::format("bce_with_logits: target {} is {}: must be between 0 and 1",
                                               wrong - numbers.begin(), *wrong));
  return loss_of(in, "bce_with_logits", outputs, targets, &kernels::stream::bce_with_logits);
}

tensor cross_entropy(context& in, const tensor& outputs, std::span<const std::int64_t> classes) {
  const shape& given = outputs.shape();
  if (outputs.type() != dtype::f32 || given.dimensions() != 2 || given[0] != classes.size() || classes.empty())
    throw error(error_kind::input,
                fmt::format("cross_entropy: outputs {} of {} and {} classes; it takes [n, classes] of "
                            "float32 and n classes",
                            to_string(given), name_of(outputs.type()), classes.size()));
  const auto wrong = std::ranges::find_if(
      classes, [&](std::int64_t one) { return one < 0 || static_cast<std::size_t>(one) >= given[1]; });
  if (wrong != classes.end())
    throw error(error_kind::input, fmt::format("cross_entropy: class {} of sample {}: there are {} classes", *wrong,
                                               wrong - classes.begin(), given[1]));
  tensor grad(given);
  tensor loss(shape(1), dtype::f64);
  runtime::tape& tape = in.tape();
  kernels::host_stream().softmax_cross_entropy(given[0], given[1], outputs.as<float>().data(), classes.data(),
                                               grad.as<float>().data(), loss.as<double>().data());
  runtime::node* const source = tape.maker_of(outputs);
  std::string spoilt = spoilt_outputs("cross_entropy", loss, outputs, source);
  return tape.add(std::move(loss), std::make_shared<loss_node>(source, std::move(grad), std::move(spoilt)));
}

}  // namespace troupe::nn
