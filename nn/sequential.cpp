#include "nn/sequential.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <optional>

#include "base/error.hpp"
#include "kernels/device.hpp"
#include "kernels/random_bits.hpp"
#include "nn/elementwise.hpp"
#include "nn/linear.hpp"
#include "nn/samples.hpp"
#include "nn/sequential_plan.hpp"

namespace troupe::nn {

/// Plans for passes on any thread. The first plan at each index of `kept_` stays, and is read without a lock: that many
/// consecutive batch sizes each have an index. Shapes whose index is in use share a few plans, which are replaced.
class sequential::plan_cache {
 public:
  /// Returns a plan, valid as long as the result and this object.
  template <class Make>
  std::shared_ptr<const plan> find(const tensor_view& input, const kernels::stream& on, Make make) {
    auto& place = kept_[input.shape().empty() ? 0 : input.shape()[0] % kept_.size()];
    if (const plan* const one = place.load(std::memory_order_acquire); one != nullptr && one->is_of(input, on))
      return {std::shared_ptr<const plan>(), one};  // shares no reference count, which all threads would write
    const std::lock_guard lock(mutex_);
    for (const auto& one : plans_)
      if (one && one->is_of(input, on)) return one;
    auto made = std::make_shared<const plan>(make());
    if (place.load(std::memory_order_relaxed) == nullptr)
      place.store(owned_.emplace_back(made).get(), std::memory_order_release);
    else
      plans_[next_++ % plans_.size()] = made;
    return made;
  }

 private:
  std::array<std::atomic<const plan*>, 64> kept_ = {};
  std::mutex mutex_;
  std::vector<std::shared_ptr<const plan>> owned_;  ///< those of `kept_`
  std::array<std::shared_ptr<const plan>, 4> plans_;
  std::size_t next_ = 0;
};

namespace {

/// Returns the offset of `count` numbers, and advances `end`. Throws `error` if no memory can hold so many.
std::size_t take_place(const module& of, const kernels::stream& on, std::size_t& end, std::size_t count) {
  const std::size_t place = end;
  if (count > std::size_t{PTRDIFF_MAX} / sizeof(float) || __builtin_add_overflow(end, aligned(on, count), &end))
    throw error(error_kind::input, fmt::format("{}: its modules save more numbers than any memory has; save fewer, or "
                                               "try a smaller batch",
                                               of.type()));
  return place;
}

}  // namespace

std::shared_ptr<sequential::plan_cache> sequential::make_plans() { return std::make_shared<plan_cache>(); }

void sequential::check_any() const {
  if (modules_.empty()) throw error(error_kind::input, "sequential: has no modules; add at least 1");
}

sequential& sequential::extend(const sequential& more) {
  modules_.insert(modules_.end(), more.modules_.begin(), more.modules_.end());
  plans_ = make_plans();
  return *this;
}

sequential sequential::part(std::size_t first, std::size_t count) const {
  if (first > size() || count > size() - first)
    throw error(error_kind::input,
                fmt::format("sequential: a part of {} modules from {} on; it has {}", count, first, size()));
  const auto begin = modules_.begin() + static_cast<std::ptrdiff_t>(first);
  return sequential({begin, begin + static_cast<std::ptrdiff_t>(count)}, first_ + first, shift_);
}

// -- composition --------------------------------------------------------------------------

std::vector<parameter> sequential::parameters() const {
  std::vector<parameter> all;
  for (std::size_t i = 0; i < size(); ++i) append_named(all, std::to_string(first_ + i), at(i).parameters());
  return all;
}

std::vector<parameter> sequential::buffers() const {
  std::vector<parameter> all;
  for (std::size_t i = 0; i < size(); ++i) append_named(all, std::to_string(first_ + i), at(i).buffers());
  return all;
}

void sequential::initialize(std::uint64_t key, const tensor_list<float>& parameters,
                            const tensor_list<float>& buffers) const {
  initialize([&](std::size_t number) { return kernels::random_bits(key, number + shift_); }, parameters.data(),
             buffers.data());
}

void sequential::initialize(const std::function<std::uint64_t(std::size_t)>& key, float* parameters,
                            float* buffers) const {
  for (std::size_t i = 0; i < size(); ++i) {
    const auto its_parameters = placed(at(i).parameters());
    const auto its_buffers = placed(at(i).buffers());
    at(i).initialize(key(first_ + i), {parameters, its_parameters}, {buffers, its_buffers});
    parameters += count_of(its_parameters);
    buffers += count_of(its_buffers);
  }
}

std::vector<parameter_range> sequential::ranges() const {
  std::vector<parameter_range> all;
  std::size_t first = 0;
  for (const auto& one : modules_) {
    const std::size_t count = count_of(one->parameters());
    if (count == 0) continue;
    for (const parameter_range& part : one->ranges()) all.push_back({first + part.first, part.count});
    first += count;
  }
  return all;
}

std::string sequential::first_without_device_code() const {
  for (const auto& one : modules_)
    if (std::string first = one->first_without_device_code(); !first.empty()) return first;
  return {};
}

bool sequential::uses_key() const {
  return std::ranges::any_of(modules_, [](const auto& one) { return one->uses_key(); });
}

bool sequential::synchronizes() const {
  return std::ranges::any_of(modules_, [](const auto& one) { return one->synchronizes(); });
}

std::uint64_t sequential::multiply_adds(const tensor_view& input) const {
  std::uint64_t sum = 0;
  tensor_view next = input;
  for (const auto& one : modules_) {
    sum += one->multiply_adds(next);
    next = one->output(next);
  }
  return sum;
}

// -- plans ----------------------------------------------------------------------------------

troupe::shape sequential::output(const tensor_view& input) const {
  check_any();
  tensor_view next = input;
  bool is_computed = false;
  for (const auto& one : modules_) {
    next = one->output(next);
    if (is_computed) check_takes_computed(*one);
    is_computed = is_computed || !one->is_identity();
  }
  return next.shape();
}

std::optional<id_range> sequential::ids() const {
  check_any();
  const auto first = std::ranges::find_if_not(modules_, [](const auto& one) { return one->is_identity(); });
  return first == modules_.end() ? std::nullopt : (*first)->ids();
}

std::size_t sequential::saved(const tensor_view& input, const kernels::stream& on) const {
  return plan_of(input, on)->saved;
}

std::shared_ptr<const sequential::plan> sequential::plan_of(const tensor_view& input, const kernels::stream& on) const {
  return plans_->find(input, on, [&] { return made_plan(input, on); });
}

sequential::plan sequential::made_plan(const tensor_view& input, const kernels::stream& on) const {
  check_any();
  plan made{{input.shape(), nullptr, input.type()}, &on.device(), on.device().is_host()};
  tensor_view next = made.input;
  std::size_t parameter = 0;
  std::size_t buffer = 0;
  for (std::size_t i = 0; i < size(); ++i) {
    const auto* const ends = dynamic_cast<const linear*>(&at(i));
    const bool has_relu = ends != nullptr && i + 2 < size() && dynamic_cast<const relu*>(&at(i + 1)) != nullptr;
    const troupe::shape output = at(i).output(next);
    if (at(i).is_identity() && i + 1 < size()) {
      next = output;
      continue;
    }
    step one{.what = &at(i), .number = first_ + i};
    if (ends != nullptr)
      one.fused = fused_linear::of(on, next.count() / ends->chosen().in_features, ends->chosen().in_features,
                                   ends->chosen().out_features, ends->chosen().bias, has_relu);
    one.parameters = placed(at(i).parameters());
    one.buffers = placed(at(i).buffers());
    one.first_parameter = std::exchange(parameter, parameter + count_of(one.parameters));
    one.first_buffer = std::exchange(buffer, buffer + count_of(one.buffers));
    one.is_trained_below = one.first_parameter > 0;
    if (!one.parameters.empty())
      for (const parameter_range& range : at(i).ranges())
        one.ranges.push_back({one.first_parameter + range.first, range.count});
    one.input = next.shape();
    one.output = output;
    one.multiply_adds = at(i).multiply_adds(next);
    one.saved = one.fused ? one.fused->saved() : saved_count(at(i), next, on);
    one.saved_at = take_place(*this, on, made.saved, one.saved);
    if (has_relu) ++i;
    if (i + 1 < size()) {
      one.output_at = take_place(*this, on, made.saved, output.count());
      one.grad_at = take_place(*this, on, made.saved, output.count());
    }
    next = output;
    made.steps.push_back(std::move(one));
  }
  std::size_t ranges = 0;
  for (std::size_t i = made.steps.size(); i-- > 0;) {
    step& one = made.steps[i];
    if (one.ranges.empty()) continue;
    made.trained.push_back(&one);
    one.first_range = std::exchange(ranges, ranges + one.ranges.size());
    made.operations += one.multiply_adds;
  }
  made.has_mask = std::make_unique<std::atomic<bool>[]>(made.steps.size());
  return made;
}

}  // namespace troupe::nn
