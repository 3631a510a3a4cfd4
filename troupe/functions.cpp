#include "troupe/functions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "actors/trainer/non_finite_watch.hpp"
#include "kernels/device.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/tape.hpp"

namespace troupe {

namespace {

using runtime::node;

/// Gives each source its gradient, which `of_source(i, grad)` computes from the output's.
class function_node final : public node {
 public:
  using gradient = std::function<tensor(std::size_t i, const tensor& grad)>;

  /// `inputs`: those of the function called `name`, each with its source. `fault`: describes another value that is not
  /// finite, or "".
  function_node(const char* name, std::vector<node*> sources, std::span<const tensor* const> inputs, gradient of_source,
                std::string fault)
      : name_(name), fault_(std::move(fault)), sources_(std::move(sources)), of_source_(std::move(of_source)) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (sources_[i] == nullptr) given_.push_back(*inputs[i]);
  }

  std::string spoilt() const override {
    for (const tensor& one : given_)
      if (const std::string where = runtime::where_spoilt(one); !where.empty())
        return fmt::format("an input {} of {} {}; {}", to_string(one.shape()), name_, where, runtime::given_spoilt);
    if (!fault_.empty()) return fault_;
    const std::string where = runtime::where_spoilt(output);
    return where.empty()
               ? ""
               : fmt::format("{} makes of finite numbers an output that {}; {}", name_, where, runtime::spoilt_advice);
  }

  void backward(runtime::tape& on) override {
    for (std::size_t i = 0; i < sources_.size(); ++i)
      if (sources_[i] != nullptr) on.give(*sources_[i], of_source_(i, grad));
  }
  void finish(runtime::tape& /*on*/) override {
    of_source_ = nullptr;
    given_.clear();
    grad = {};
  }

 private:
  const char* name_;
  std::string fault_;
  std::vector<node*> sources_;
  std::vector<tensor> given_;  ///< the inputs that the context has not computed
  gradient of_source_;
};

/// Records `output` as the result of function `name` of `inputs`.
tensor record(context& in, const char* name, tensor output, std::span<const tensor* const> inputs,
              function_node::gradient of_source, std::string fault = {}) {
  runtime::tape& tape = in.tape();
  std::vector<node*> sources;
  for (const tensor* one : inputs) sources.push_back(tape.maker_of(*one));
  return tape.add(std::move(output), std::make_shared<function_node>(name, std::move(sources), inputs,
                                                                     std::move(of_source), std::move(fault)));
}

tensor record(context& in, const char* name, tensor output, const tensor& input,
              std::function<tensor(const tensor& grad)> of_input, std::string fault = {}) {
  const std::array<const tensor*, 1> only = {&input};
  return record(
      in, name, std::move(output), only,
      [of = std::move(of_input)](std::size_t /*i*/, const tensor& grad) { return of(grad); }, std::move(fault));
}

/// Calls `use` with the numbers of x as float or double. Throws for another type, or without numbers.
template <class F>
auto with_reals(const char* function, const tensor& x, F use) {
  if (x.type() == dtype::i64 || x.count() == 0)
    throw error(error_kind::input, fmt::format("{}: a tensor {} of {}; it takes float32 or float64, at least 1 number",
                                               function, to_string(x.shape()), name_of(x.type())));
  return x.type() == dtype::f32 ? use(x.as<float>()) : use(x.as<double>());
}

void check_alike(const char* function, const tensor& a, const tensor& b) {
  if (a.type() != b.type() || !(a.shape() == b.shape()))
    throw error(error_kind::input,
                fmt::format("{}: tensors {} of {} and {} of {}; it takes two of one shape and type", function,
                            to_string(a.shape()), name_of(a.type()), to_string(b.shape()), name_of(b.type())));
}

/// combine(a, b), element by element.
template <class Combine>
tensor element_by_element(const char* function, const tensor& a, const tensor& b, Combine combine) {
  check_alike(function, a, b);
  return with_reals(function, a, [&]<class Number>(std::span<Number> of_a) {
    tensor made(a.shape(), a.type());
    std::ranges::transform(of_a, b.as<Number>(), made.as<Number>().begin(), combine);
    return made;
  });
}

tensor times(const char* function, const tensor& x, double factor) {
  return with_reals(function, x, [&]<class Number>(std::span<Number> numbers) {
    tensor made(x.shape(), x.type());
    std::ranges::transform(numbers, made.as<Number>().begin(),
                           [by = static_cast<Number>(factor)](Number one) { return one * by; });
    return made;
  });
}

/// Returns the gradient of a factor: the product's gradient times the other factor, which may be float64.
tensor grad_of_factor(const tensor& grad, const tensor& other) {
  tensor made(grad.shape());
  const auto from = grad.as<float>();
  const auto to = made.as<float>();
  with_reals("multiply", other, [&](auto numbers) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = from[i] * static_cast<float>(numbers[i]);
  });
  return made;
}

/// The sum times a factor; every element's gradient is the result's gradient times the factor.
tensor sum_times(context& in, const char* function, const tensor& x, double factor) {
  tensor made(shape(1), dtype::f64);
  with_reals(function, x, [&](auto numbers) {
    made.as<double>()[0] = std::accumulate(numbers.begin(), numbers.end(), 0.0) * factor;
  });
  return record(in, function, std::move(made), x, [lengths = x.shape(), factor](const tensor& grad) {
    tensor of_all(lengths);
    std::ranges::fill(of_all.as<float>(), static_cast<float>(static_cast<double>(grad.as<float>()[0]) * factor));
    return of_all;
  });
}

}  // namespace

tensor add(context& in, const tensor& a, const tensor& b) {
  const std::array<const tensor*, 2> both = {&a, &b};
  return record(in, "add", element_by_element("add", a, b, std::plus()), both,
                [](std::size_t /*i*/, const tensor& grad) { return times("add", grad, 1); });
}

tensor multiply(context& in, const tensor& a, const tensor& b) {
  const std::array<const tensor*, 2> both = {&a, &b};
  return record(in, "multiply", element_by_element("multiply", a, b, std::multiplies()), both,
                [a, b](std::size_t i, const tensor& grad) { return grad_of_factor(grad, i == 0 ? b : a); });
}

tensor scale(context& in, const tensor& x, double factor) {
  std::string fault;
  if (!std::isfinite(factor))
    fault = fmt::format("the factor of scale is {}; look at what computes it", actors::kind_of(factor));
  return record(
      in, "scale", times("scale", x, factor), x, [factor](const tensor& grad) { return times("scale", grad, factor); },
      std::move(fault));
}

tensor sum(context& in, const tensor& x) { return sum_times(in, "sum", x, 1); }

tensor mean(context& in, const tensor& x) {
  return sum_times(in, "mean", x, 1 / static_cast<double>(std::max<std::size_t>(x.count(), 1)));
}

tensor reshape(context& in, const tensor& x, const shape& lengths) {
  if (lengths.count() != x.count())
    throw error(error_kind::input, fmt::format("reshape: {} has {} numbers, {} would have {}", to_string(x.shape()),
                                               x.count(), to_string(lengths), lengths.count()));
  return record(in, "reshape", tensor(lengths, x.type(), x.owner()), x,
                [before = x.shape()](const tensor& grad) { return tensor(before, dtype::f32, grad.owner()); });
}

// -- concat -----------------------------------------------------------------------------

namespace {

std::size_t last_of(const tensor& x) { return x.shape()[x.shape().dimensions() - 1]; }

/// Copies `columns` columns of a matrix, from `first` on, between the whole and a part.
template <bool IntoWhole>
void copy_part(std::size_t rows, float* whole, std::size_t width, std::size_t first, float* part, std::size_t columns) {
  for (std::size_t row = 0; row < rows; ++row) {
    float* const at = whole + row * width + first;
    float* const of_part = part + row * columns;
    std::copy_n(IntoWhole ? of_part : at, columns, IntoWhole ? at : of_part);
  }
}

void check_parts(std::span<const tensor* const> parts) {
  const tensor& first = *parts.front();
  for (const tensor* one : parts) {
    const bool fits = one->type() == dtype::f32 && one->count() > 0 && first.shape().dimensions() > 0 &&
                      one->shape().dimensions() == first.shape().dimensions() &&
                      one->shape().with_last(1) == first.shape().with_last(1);
    if (!fits)
      throw error(error_kind::input, fmt::format("concat: tensors {} of {} and {} of {}; it takes float32 alike in all "
                                                 "dimensions but the last",
                                                 to_string(first.shape()), name_of(first.type()),
                                                 to_string(one->shape()), name_of(one->type())));
  }
}

}  // namespace

tensor detail::concat(context& in, std::span<const tensor* const> parts) {
  check_parts(parts);
  std::vector<std::size_t> begin = {0};
  for (const tensor* one : parts) begin.push_back(begin.back() + last_of(*one));
  const std::size_t width = begin.back();
  tensor whole(parts.front()->shape().with_last(width));
  const std::size_t rows = whole.count() / width;
  for (std::size_t i = 0; i < parts.size(); ++i)
    copy_part<true>(rows, whole.as<float>().data(), width, begin[i], parts[i]->as<float>().data(), last_of(*parts[i]));
  return record(in, "concat", std::move(whole), parts, [begin, width, rows](std::size_t i, const tensor& grad) {
    const std::size_t columns = begin[i + 1] - begin[i];
    tensor part(grad.shape().with_last(columns));
    copy_part<false>(rows, grad.as<float>().data(), width, begin[i], part.as<float>().data(), columns);
    return part;
  });
}

// -- dot products -------------------------------------------------------------------------

tensor detail::pairwise_dots(context& in, std::span<const tensor* const> parts) {
  const shape& first = parts.front()->shape();
  for (const tensor* one : parts)
    if (one->type() != dtype::f32 || one->shape().dimensions() != 2 || one->count() == 0 || !(one->shape() == first))
      throw error(
          error_kind::input,
          fmt::format("pairwise_dots: tensors {} and {} of {}; it takes matrices [n, d] of one shape, of float32",
                      to_string(first), to_string(one->shape()), name_of(one->type())));
  std::vector<tensor> x;
  std::vector<kernels::row_matrix<const float>> views;
  for (const tensor* one : parts) {
    x.push_back(*one);
    views.push_back({one->as<float>().data(), first[1]});
  }
  const std::size_t pairs = kernels::pair_count(x.size());
  tensor dots(shape(first[0], pairs));
  kernels::host_stream().pairwise_dots(first[0], first[1], views, {dots.as<float>().data(), pairs});
  // One pass computes all gradients, when the first of them is asked for.
  return record(
      in, "pairwise_dots", std::move(dots), parts,
      [x = std::move(x), views = std::move(views), pairs, grads = std::vector<tensor>()](std::size_t i,
                                                                                         const tensor& grad) mutable {
        if (grads.empty()) {
          std::vector<kernels::row_matrix<float>> to;
          const shape& each = x.front().shape();
          for (std::size_t k = 0; k < x.size(); ++k)
            to.push_back({grads.emplace_back(each).as<float>().data(), each[1]});
          kernels::host_stream().pairwise_dots_backward(each[0], each[1], views, {grad.as<float>().data(), pairs}, to);
        }
        return std::exchange(grads[i], {});
      });
}

}  // namespace troupe
