#include "troupe/check_gradient.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device.hpp"
#include "model/random.hpp"
#include "troupe/error.hpp"
#include "troupe/runtime/gradient_writers.hpp"

namespace troupe::nn {

namespace {

/// Numbers between two margins, which must not be written.
class guarded {
 public:
  explicit guarded(std::size_t count) : count_(count), all_(count + 2 * margin, mark()) {}

  float* data() { return all_.data() + margin; }
  std::span<float> numbers() { return {data(), count_}; }
  bool is_intact() const {
    const auto is_mark = [](float x) { return std::bit_cast<std::uint32_t>(x) == mark_bits; };
    return std::all_of(all_.begin(), all_.begin() + margin, is_mark) &&
           std::all_of(all_.end() - margin, all_.end(), is_mark);
  }
  /// The index of the first number that was never written; `count` if all were.
  std::size_t first_unwritten() {
    const auto found = std::ranges::find(numbers(), mark_bits, [](float x) { return std::bit_cast<std::uint32_t>(x); });
    return static_cast<std::size_t>(found - numbers().begin());
  }

 private:
  static constexpr std::ptrdiff_t margin = 64;
  static constexpr std::uint32_t mark_bits = 0x7fa5a5a5;  // a NaN that no arithmetic makes
  static float mark() { return std::bit_cast<float>(mark_bits); }

  std::size_t count_;
  std::vector<float> all_;
};

/// An element of a named tensor, for errors: `weight[1, 2]`.
std::string element(const std::string& name, const troupe::shape& lengths, std::size_t i) {
  std::string places;
  for (std::size_t d = lengths.dimensions(); d-- > 0;) {
    places = fmt::format("{}{}{}", i % lengths[d], places.empty() ? "" : ", ", places);
    i /= lengths[d];
  }
  return fmt::format("{}[{}]", name, places);
}

/// A module with the buffers that its passes need.
class checked_module {
 public:
  checked_module(const module& of, const tensor& input, const gradient_check& how)
      : module_(of),
        how_(how),
        input_(input.clone()),
        output_(of.output(input)),
        weights_(output_.count()),
        parameters_(placed(of.parameters())),
        buffers_(placed(of.buffers())),
        first_(initial_numbers(of, how.key)) {
    // No weight is near 0, so that every output counts.
    for (std::size_t i = 0; i < weights_.size(); ++i)
      weights_[i] =
          model::uniform(~how.key, 2 * i, 0.5, 1) * (model::random_bits(~how.key, 2 * i + 1) % 2 ? 1.0F : -1.0F);
  }

  void check() {
    const std::vector<float> first = forward();
    check_repeats(first, forward());
    const bool has_input = input_.type() == dtype::f32;
    flat_gradients once = backward(has_input, true);
    flat_gradients by_steps = backward_in_steps(has_input);
    check_equal(once, by_steps);
    if (has_input) check_tensor("the input", input_.shape(), input_.as<float>(), once.of_input);
    for (const parameter& one : parameters_)
      check_tensor(one.name, one.shape, std::span(first_.parameters).subspan(one.first, one.count()),
                   std::span(once.of_parameters).subspan(one.first, one.count()));
  }

 private:
  struct flat_gradients {
    std::vector<float> of_input = {};
    std::vector<float> of_parameters = {};
  };

  [[noreturn]] void fail(const std::string& text) const {
    throw error(error_kind::input, fmt::format("{}: {}", module_.type(), text));
  }

  /// Runs forward, then `use(pass, numbers)`, which runs backward.
  template <class F>
  std::vector<float> passed(F use) {
    guarded output(output_.count());
    guarded saved(saved_count(module_, input_, kernels::host_stream()));
    guarded buffers(first_.buffers.size());
    std::ranges::copy(first_.buffers, buffers.data());
    const std::vector<float> before = first_.parameters;
    const tensor input = input_.clone();
    const pass how{.stream = kernels::host_stream(), .training = how_.training, .key = how_.key};
    const pass_numbers numbers{.parameters = {first_.parameters.data(), parameters_},
                               .buffers = {buffers.data(), buffers_},
                               .input = input,
                               .output = {output.data(), output_},
                               .saved = saved.numbers()};
    module_.forward(how, numbers);
    check_margins("forward", output, saved, buffers);
    if (const std::size_t i = output.first_unwritten(); i < output_.count())
      fail(fmt::format("forward does not write {}", element("the output", output_, i)));
    std::vector<float> made(output.numbers().begin(), output.numbers().end());
    use(how, numbers);
    check_margins("backward", output, saved, buffers);
    if (!std::ranges::equal(input.bytes(), input_.bytes())) fail("a pass changes its input");
    if (before != first_.parameters) fail("a pass changes the parameters");
    return made;
  }

  std::vector<float> forward() {
    return passed([](const pass&, const pass_numbers&) {});
  }

  void check_margins(const char* which, const guarded& output, const guarded& saved, const guarded& buffers) const {
    for (const auto& [name, one] : {std::pair("output", &output), {"saved numbers", &saved}, {"buffers", &buffers}})
      if (!one->is_intact()) fail(fmt::format("{} writes outside of the {}", which, name));
  }

  /// Returns what `ask` writes to the gradients that it gets.
  template <class F>
  flat_gradients asked(bool of_input, bool of_parameters, const char* which, F ask) {
    guarded input(of_input ? input_.count() : 0);
    guarded all(of_parameters ? first_.parameters.size() : 0);
    const std::vector<float> grad_output = weights_;
    gradients of{.output = {weights_.data(), output_}};
    if (of_input) of.input = {input.data(), input_.shape()};
    if (of_parameters) of.parameters = {all.data(), parameters_};
    ask(of);
    if (weights_ != grad_output) fail(fmt::format("{} changes the gradient of the output", which));
    if (!input.is_intact()) fail(fmt::format("{} writes outside of the input's gradient", which));
    if (!all.is_intact()) fail(fmt::format("{} writes outside of the parameters' gradient", which));
    if (const std::size_t i = input.first_unwritten(); i < input.numbers().size())
      fail(fmt::format("{} does not write the gradient of {}", which, element("the input", input_.shape(), i)));
    if (const std::size_t i = all.first_unwritten(); i < all.numbers().size())
      fail(fmt::format("{} does not write the gradient of {}", which, parameter_name(i)));
    return {{input.numbers().begin(), input.numbers().end()}, {all.numbers().begin(), all.numbers().end()}};
  }

  flat_gradients backward(bool of_input, bool of_parameters) {
    flat_gradients made;
    passed([&](const pass& how, const pass_numbers& numbers) {
      made =
          asked(of_input, of_parameters, "backward", [&](const gradients& of) { module_.backward(how, numbers, of); });
    });
    return made;
  }

  /// Computes the input's gradient first, then the parameters' by their ranges, as replicas do.
  flat_gradients backward_in_steps(bool of_input) {
    flat_gradients made;
    passed([&](const pass& how, const pass_numbers& numbers) {
      if (of_input)
        made = asked(true, false, "backward", [&](const gradients& of) { module_.backward(how, numbers, of); });
      pass next = how;
      next.is_second_backward = of_input;
      const std::vector<parameter_range> ranges = module_.ranges();
      made.of_parameters = asked(false, true, "backward_parameters", [&](const gradients& of) {
                             flat_gradient flat(of.parameters.data());
                             runtime::checked_places checked(module_, ranges, flat);
                             module_.backward_parameters(next, numbers, of.output, checked);
                             checked.check_end();
                           }).of_parameters;
    });
    return made;
  }

  void check_repeats(const std::vector<float>& first, const std::vector<float>& second) const {
    for (std::size_t i = 0; i < first.size(); ++i)
      if (first[i] != second[i])
        fail(fmt::format("forward gives {} = {}, and again, with the same key, {}", element("the output", output_, i),
                         first[i], second[i]));
  }

  void check_equal(const flat_gradients& once, const flat_gradients& by_steps) const {
    const auto check = [this](const std::vector<float>& a, const std::vector<float>& b, auto name) {
      for (std::size_t i = 0; i < a.size(); ++i)
        if (std::abs(a[i] - b[i]) > 1e-5F * std::max({std::abs(a[i]), std::abs(b[i]), 1e-3F}))
          fail(fmt::format(
              "backward gives the gradient of {} as {} when asked for all at once, and as {} when asked one "
              "after the other",
              name(i), a[i], b[i]));
    };
    check(once.of_input, by_steps.of_input, [this](std::size_t i) { return element("the input", input_.shape(), i); });
    check(once.of_parameters, by_steps.of_parameters, [this](std::size_t i) { return parameter_name(i); });
  }

  std::string parameter_name(std::size_t i) const {
    for (const parameter& one : parameters_)
      if (i < one.first + one.count()) return element(one.name, one.shape, i - one.first);
    return "no parameter";
  }

  /// The dot product of gradient and outputs, in double, and how far rounding may move it.
  struct projection {
    double value = 0;
    double noise = 0;
  };
  projection project() {
    projection all;
    const std::vector<float> y = forward();
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double term = static_cast<double>(weights_[i]) * static_cast<double>(y[i]);
      all.value += term;
      all.noise += std::abs(term);
    }
    all.noise *= 4 * static_cast<double>(std::numeric_limits<float>::epsilon());
    return all;
  }

  /// A central difference by one element, with the step that float32 really gives.
  struct difference {
    double slope = 0;
    double noise = 0;
  };
  difference difference_by(float& x, double step) {
    const float before = x;
    const auto up = static_cast<float>(static_cast<double>(before) + step);
    const auto down = static_cast<float>(static_cast<double>(before) - step);
    x = up;
    const projection above = project();
    x = down;
    const projection below = project();
    x = before;
    const double width = static_cast<double>(up) - static_cast<double>(down);
    return {(above.value - below.value) / width, (above.noise + below.noise) / width};
  }

  enum class agreement : std::uint8_t { yes, no, no_slope };
  struct verdict {
    agreement is = agreement::yes;
    double expected = 0;
  };
  /// Checks differences with this step and twice the step against `given`; `usual`: the mean size of the gradient.
  verdict compare(float& x, double step, double given, double usual) {
    const difference wide = difference_by(x, 2 * step);
    const difference close = difference_by(x, step);
    const double expected = (4 * close.slope - wide.slope) / 3;  // without the error of the step's square
    const double allowed = how_.tolerance * std::max({std::abs(expected), std::abs(given), usual / 10});
    if (std::abs(expected - given) <= allowed + 2 * close.noise + wide.noise) return {agreement::yes, expected};
    const bool has_slope = std::abs(close.slope - wide.slope) <= allowed / 2 + close.noise + wide.noise;
    return {has_slope ? agreement::no : agreement::no_slope, expected};
  }

  void check_tensor(const std::string& name, const troupe::shape& lengths, std::span<float> numbers,
                    std::span<const float> gradient) {
    double usual = 0;
    for (const float one : gradient) usual += std::abs(static_cast<double>(one)) / static_cast<double>(gradient.size());
    const std::size_t stride = std::max<std::size_t>(1, numbers.size() / std::max<std::size_t>(how_.elements, 1));
    std::size_t smooth = 0;
    std::size_t all = 0;
    for (std::size_t i = 0; i < numbers.size(); i += stride, ++all) {
      const auto given = static_cast<double>(gradient[i]);
      const double step = 0.01 * std::max(1.0, std::abs(static_cast<double>(numbers[i])));
      verdict found = compare(numbers[i], step, given, usual);
      // The function may have a kink nearby: shorter steps may stay on one side of it.
      if (found.is != agreement::yes) found = compare(numbers[i], step / 10, given, usual);
      if (found.is == agreement::no)
        fail(fmt::format("backward gives the gradient of {} as {}, forward's differences give {}",
                         element(name, lengths, i), given, found.expected));
      if (found.is == agreement::yes) ++smooth;
    }
    if (smooth * 2 < all)
      fail(fmt::format("forward has no slope by {} at {} of {} elements that were looked at; try another input or key",
                       name, all - smooth, all));
  }

  const module& module_;
  gradient_check how_;
  tensor input_;
  troupe::shape output_;
  std::vector<float> weights_;
  std::vector<parameter> parameters_;
  std::vector<parameter> buffers_;
  flat_numbers first_;
};

}  // namespace

void check_gradient(const module& of, const tensor& input, const gradient_check& how) {
  checked_module(of, input, how).check();
}

}  // namespace troupe::nn
