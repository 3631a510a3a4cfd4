#include "nn/own_optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <exception>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/exception_text.hpp"
#include "base/text.hpp"
#include "nn/added_names.hpp"

namespace troupe::nn {

namespace {

added_names<added_optimizer>& all_optimizers() {
  static added_names<added_optimizer> all("add_optimizer", "an optimizer");
  return all;
}

constexpr std::array<std::string_view, 6> usual_optimizers = {"sgd",      "adagrad",  "adam", "rowwise-adagrad",
                                                              "lazy-sgd", "lazy-adam"};

/// An optimizer that calls a function.
class function_optimizer final : public own_optimizer {
 public:
  function_optimizer(int state_buffers, update_function update)
      : state_buffers_(state_buffers), update_(std::move(update)) {}

  int state_buffers() const override { return state_buffers_; }
  void update(const weight_block& of) const override { update_(of); }

 private:
  int state_buffers_;
  update_function update_;
};

class no_options final : public detail::own_optimizer_options {
 public:
  explicit no_options(std::shared_ptr<const own_optimizer> made) : made_(std::move(made)) {}

  std::unique_ptr<own_optimizer_options> copy() const override { return std::make_unique<no_options>(*this); }
  std::shared_ptr<const own_optimizer> make() const override { return made_; }
  std::vector<field> fields() const override { return {}; }
  bool set(std::size_t /*i*/, const option_value& /*value*/) override { return false; }
  bool fits(std::size_t /*i*/) const override { return true; }

 private:
  std::shared_ptr<const own_optimizer> made_;
};

/// Calls `what`, the optimizer's code. Throws `error` with its name if that throws.
template <class F>
auto named(const std::string& name, const F& what) {
  std::string text;
  try {
    return what();
  } catch (const std::exception& e) {
    text = text_of(e);
  } catch (...) {
    text = "an exception of unknown type";
  }
  throw error(error_kind::run, fmt::format("the optimizer {}: {}", name, text));
}

}  // namespace

void detail::add_optimizer(const std::string& name, std::shared_ptr<const own_optimizer_options> with_defaults) {
  check_added_name("add_optimizer", "name", name, '-');
  for (const auto& one : with_defaults->fields()) check_added_name("add_optimizer", "option", one.name, '_', name);
  all_optimizers().add(name, std::ranges::find(usual_optimizers, name) != usual_optimizers.end(),
                       {name, std::move(with_defaults)});
}

void add_optimizer(const std::string& name, int state_buffers, update_function update) {
  if (!update) throw error(error_kind::input, fmt::format("add_optimizer: {} has no function", printable(name)));
  detail::add_optimizer(name, std::make_shared<const no_options>(
                                  std::make_shared<const function_optimizer>(state_buffers, std::move(update))));
}

std::vector<added_optimizer> added_optimizers() { return all_optimizers().all(); }

chosen_optimizer::chosen_optimizer(std::string name, std::unique_ptr<const detail::own_optimizer_options> options)
    : name_(std::move(name)),
      options_(std::move(options)),
      made_(named(name_, [&] { return options_->make(); })),
      state_buffers_(named(name_, [&] { return made_->state_buffers(); })),
      initial_state_(named(name_, [&] { return made_->initial_state(); })) {
  if (state_buffers_ < 0 || state_buffers_ > 2)
    throw error(error_kind::input,
                fmt::format("the optimizer {}: {} state buffers: must be 0, 1 or 2", name_, state_buffers_));
  if (!std::isfinite(initial_state_))
    throw error(error_kind::input,
                fmt::format("the optimizer {}: initial_state {}: must be finite", name_, initial_state_));
  constexpr auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  if (!std::ranges::equal(tried(0), tried(1), {}, bits, bits))
    throw error(error_kind::input, fmt::format("the optimizer {}: weights in two blocks come out otherwise than in "
                                               "one; update each weight by what is at its index only",
                                               name_));
}

/// Returns weights and state after a step; the first block has this many weights. The total exceeds any processor's
/// vectors, so that compiled loops end differently in the blocks.
std::vector<float> chosen_optimizer::tried(std::size_t first_block) const {
  constexpr std::size_t count = 67;
  constexpr double lr = 0.01;
  std::vector<float> weights(count);
  std::vector<float> gradient(count);
  for (std::size_t i = 0; i < count; ++i) {
    weights[i] = static_cast<float>(i * 5 % 11) / 7 - 0.5F;
    gradient[i] = static_cast<float>(i * 3 % 13) / 9 - 0.7F;
  }
  std::vector<float> first(state_buffers_ >= 1 ? count : 0, initial_state_);
  std::vector<float> second(state_buffers_ >= 2 ? count : 0);
  for (const auto& [begin, end] : {std::pair<std::size_t, std::size_t>(0, first_block), {first_block, count}}) {
    const auto block = [begin = begin, size = end - begin](std::vector<float>& all) {
      return all.empty() ? std::span<float>() : std::span(all).subspan(begin, size);
    };
    if (begin < end) update({block(weights), block(gradient), block(first), block(second), lr, 1});
  }
  weights.insert(weights.end(), first.begin(), first.end());
  weights.insert(weights.end(), second.begin(), second.end());
  return weights;
}

void chosen_optimizer::update(const weight_block& of) const {
  named(name_, [&] { made_->update(of); });
}

bool own_optimizer_choice::operator==(const own_optimizer_choice& other) const {
  return what == other.what ||
         (what->name() == other.what->name() && detail::have_same_values(what->options(), other.what->options()));
}

}  // namespace troupe::nn
