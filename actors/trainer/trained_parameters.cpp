#include "actors/trainer/trained_parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "actors/common/device_tensor.hpp"
#include "actors/common/own_device.hpp"
#include "base/assert.hpp"

namespace troupe::actors {

trained_parameters::trained_parameters(const std::vector<nn::parameter_range>& ranges, kernels::device& where,
                                       const options& chosen)
    : options_(chosen),
      normed_(chosen.normed.value_or(ranges)),
      copies_(where.make_stream()),
      compute_(where.make_stream(chosen.precision)) {
  constexpr std::size_t first_bucket_bytes = std::size_t{1} << 20;  // small, so that the group starts early
  buckets_.emplace(*compute_,
                   plan_buckets(ranges, std::min(options_.bucket_bytes, first_bucket_bytes), options_.bucket_bytes));
  const std::size_t searches = buckets_->size() + 1;  // searches of a step
  watch_ = non_finite_watch(*compute_, 3 * searches, searches);
  norms_.resize(*compute_, normed_.size());
}

// -- numbers ------------------------------------------------------------------

void trained_parameters::start(std::span<const float> parameters, std::span<const float> kept) {
  replace(parameters, kept);
  set_optimizer(options_.optimizer);
}

void trained_parameters::replace(std::span<const float> parameters, std::span<const float> kept) {
  forget_buffers();
  kernels::assign(*compute_, parameters, weights_);
  if (!kept.empty()) kernels::assign(*compute_, kept, buffers_.now);
}

std::shared_ptr<const float> trained_parameters::copy_of_weights() const {
  kernels::device_array<float> copy;
  copy.resize(*compute_, weights_.size());
  compute_->copy(weights_.data(), copy.data(), copy.size() * sizeof(float));
  return {copy.owner(), copy.data()};
}

void trained_parameters::set_optimizer(const model::optimizer_spec& chosen) {
  options_.optimizer = chosen;
  const int buffers = model::state_buffers(options_.optimizer);
  const auto fill = [&](kernels::device_array<float>& state, float value) {
    state.resize(*compute_, weights_.size());
    compute_->fill(weights_.size(), value, state.data());
  };
  if (buffers >= 1) fill(first_state_, model::initial_state(options_.optimizer));
  if (buffers >= 2) fill(second_state_, 0.0F);
}

std::vector<kernels::device_array<float>*> trained_parameters::parts() {
  std::vector<kernels::device_array<float>*> all = {&weights_};
  for (auto* one : {&first_state_, &second_state_, &buffers_.now})
    if (one->size() > 0) all.push_back(one);
  return all;
}

std::vector<msg::tensor> trained_parameters::state() {
  std::vector<msg::tensor> all;
  for (const auto* numbers : parts()) all.push_back(copy_of(*numbers));
  return all;
}

bool trained_parameters::restore(const std::vector<msg::tensor>& state) {
  const auto to = parts();
  if (state.size() != to.size()) return false;
  for (std::size_t i = 0; i < to.size(); ++i)
    if (state[i].as<float>().size() != to[i]->size()) return false;
  forget_buffers();
  for (std::size_t i = 0; i < to.size(); ++i) kernels::assign(*compute_, state[i].as<float>(), *to[i]);
  return true;
}

msg::tensor trained_parameters::copy_of(const kernels::device_array<float>& numbers) {
  synchronize();
  std::vector<float> copy;
  const auto here = kernels::on_host<float>(*compute_, numbers.data(), numbers.size(), copy);
  if (copy.empty()) copy.assign(here.begin(), here.end());
  return msg::tensor::own(numbers.size(), 1, std::move(copy));
}

// -- a step -------------------------------------------------------------------

void trained_parameters::open(std::uint64_t update) {
  constants_ = model::constants_at(options_.optimizer, update);
  buckets_->open();
  last_pass_ = 0;
  if (options_.applies_whole) keep_buffers();
}

void trained_parameters::keep_buffers() {
  if (buffers_.now.size() == 0 || std::exchange(buffers_.are_kept, true)) return;
  buffers_.before.resize(*compute_, buffers_.now.size());
  compute_->copy(buffers_.now.data(), buffers_.before.data(), buffers_.now.size() * sizeof(float));
}

namespace {

class places_in_buckets final : public nn::gradient_places {
 public:
  places_in_buckets(gradient_buckets& buckets, function_ref<void(const nn::parameter_range&)> finished)
      : buckets_(buckets), finished_(finished) {}

  float* at(const nn::parameter_range& which) override { return buckets_.gradient_at(which); }
  void finished(const nn::parameter_range& which) override { finished_(which); }

 private:
  gradient_buckets& buckets_;
  function_ref<void(const nn::parameter_range&)> finished_;
};

}  // namespace

void trained_parameters::backward(std::uint64_t step, bool last, function_ref<void(nn::gradient_places&)> pass,
                                  function_ref<void(std::uint32_t)> full, bool is_of_same_batch) {
  const auto scope = timed(timer_, trace::range_name::backward_parameters);
  last_pass_ = step;
  buckets_->begin_pass(is_of_same_batch);
  const auto when_finished = [&](const nn::parameter_range& range) {
    const auto bucket = buckets_->finished(range, last);
    if (!bucket) return;
    if (options_.watches) look_at_bucket(step, *bucket);
    if (!is_on_host()) return buckets_->mark(*bucket);
    watch_.fetch(*compute_);
    full(*bucket);
  };
  places_in_buckets places(*buckets_, when_finished);
  pass(places);
  // The buffers' bucket follows the gradients' buckets, which the pass has filled.
  if (last && is_on_host() && buckets() > gradient_bucket_count()) full(gradient_bucket_count());
}

void trained_parameters::look_at_bucket(std::uint64_t step, std::uint32_t bucket) {
  const nn::parameter_range range = buckets_->range(bucket);
  watch_.look(*compute_, step, buckets_->numbers(bucket), range.count, "a dense gradient", range.first);
}

msg::tensor trained_parameters::share(std::uint32_t bucket, std::uint32_t rank) {
  if (is_of_buffers(bucket)) return share_of_buffers(rank == 0);
  // This rank lacks the optimizer step's last batch, so no pass has searched the sum of its batches.
  if (options_.watches && last_pass_ > 0 && buckets_->state_of(bucket) == gradient_buckets::state::filling) {
    look_at_bucket(last_pass_, bucket);
    if (is_on_host()) watch_.fetch(*compute_);
  }
  return buckets_->share(bucket);
}

/// On a device the share has memory of its own: evaluations may run before all ranks have read theirs.
msg::tensor trained_parameters::share_of_buffers(bool is_theirs) {
  TROUPE_ASSERT(!buffers_.are_shared);
  buffers_.are_shared = true;
  const std::size_t count = buffers_.now.size();
  if (is_on_host()) {
    std::vector<float> copy(count);
    if (is_theirs) std::copy_n(buffers_.now.data(), count, copy.begin());
    return msg::tensor::own(count, 1, std::move(copy));
  }
  buffers_.share.resize(*compute_, count);
  if (is_theirs)
    compute_->copy(buffers_.now.data(), buffers_.share.data(), count * sizeof(float));
  else
    compute_->fill(count, 0.0F, buffers_.share.data());
  return share_in(buffers_.share);
}

msg::tensor trained_parameters::as_share(std::span<const float> numbers) { return copied_to(shared_numbers_, numbers); }

msg::tensor trained_parameters::as_mean(std::span<const float> numbers) { return copied_to(given_mean_, numbers); }

/// Also copies on the host, so that the caller may reuse its numbers.
msg::tensor trained_parameters::copied_to(kernels::device_array<float>& array, std::span<const float> numbers) {
  const std::uint64_t count = numbers.size();
  if (is_on_host()) return msg::tensor::own(count, 1, std::vector<float>(numbers.begin(), numbers.end()));
  kernels::assign(*compute_, numbers, array);
  return share_in(array);
}

/// The array outlives the message: the group's stream may still read it. It is written again when the mean has come.
msg::tensor trained_parameters::share_in(const kernels::device_array<float>& array) {
  return on_device({&compute_->device(), array.size(), 1, {array.data(), 1}, array.owner()}, compute_->record());
}

std::vector<float> trained_parameters::on_host(const msg::tensor& mean) {
  if (const device_block* where = block_of(mean.bytes)) compute_->wait(where->written());
  const std::span<const float> there = mean.as<float>();
  std::vector<float> copy;
  const auto here = kernels::on_host<float>(*compute_, there.data(), there.size(), copy);
  if (copy.empty()) copy.assign(here.begin(), here.end());
  return copy;
}

void trained_parameters::give_up(std::uint32_t bucket) {
  if (is_of_buffers(bucket))
    buffers_.are_shared = false;
  else
    buckets_->settle(bucket);
}

void trained_parameters::take(std::uint32_t bucket, const msg::tensor& mean) {
  give_up(bucket);
  const bool is_buffers = is_of_buffers(bucket);
  const nn::parameter_range range = is_buffers ? nn::parameter_range{0, buffers_.now.size()} : this->range(bucket);
  TROUPE_ASSERT(mean.type == dtype::f32 && mean.rows == range.count && mean.consistent());
  const float* grad = mean.as<float>().data();
  if (const device_block* where = block_of(mean.bytes)) {
    compute_->wait(where->written());
    means_.push_back(mean.bytes);
  }
  if (is_buffers) return compute_->copy(grad, buffers_.now.data(), range.count * sizeof(float));
  if (!options_.applies_whole) return update(range, grad);
  mean_.resize(*compute_, weights_.size());
  compute_->copy(grad, mean_.data() + range.first, range.count * sizeof(float));
}

void trained_parameters::update(nn::parameter_range range, const float* grad) {
  const auto part = [&range](const kernels::device_array<float>& state) {
    return state.size() == 0 ? nullptr : state.data() + range.first;
  };
  const auto scope = timed(timer_, trace::range_name::update);
  compute_->update_dense(constants_, range.count, part(weights_), {part(first_state_), part(second_state_)}, grad);
}

model::exact_sum trained_parameters::mean_squared_norm() {
  for (std::size_t i = 0; i < normed_.size(); ++i)
    compute_->squared_norm(normed_[i].count, mean_.data() + normed_[i].first, norms_.data() + i);
  norms_.download(*compute_);
  synchronize();
  model::exact_sum sum;
  for (std::size_t i = 0; i < normed_.size(); ++i) sum.add(norms_.host()[i]);
  return sum;
}

void trained_parameters::apply(float factor) {
  if (factor != 1) compute_->multiply(mean_.size(), factor, mean_.data());
  update({0, weights_.size()}, mean_.data());
  forget_buffers();
}

void trained_parameters::leave_out() {
  if (std::exchange(buffers_.are_kept, false))
    compute_->copy(buffers_.before.data(), buffers_.now.data(), buffers_.now.size() * sizeof(float));
}

// -- other --------------------------------------------------------------------

void trained_parameters::look_at_weights(std::uint64_t step) {
  watch_.look(*compute_, step, weights_.data(), weights_.size(), "a dense weight", 0);
  synchronize();
}

/// Returns a finding with the name of its parameter, and the position within it.
non_finite_watch::finding trained_parameters::named(non_finite_watch::finding found) const {
  if (!found.first) return found;
  const std::size_t whole_place = *found.first + found.place;
  for (const nn::parameter& one : options_.names) {
    if (whole_place < one.first || whole_place - one.first >= one.count()) continue;
    found.what += fmt::format(", {} [{}],", one.name, fmt::join(one.shape, ", "));
    found.place = whole_place - one.first;
    found.count = one.count();
    break;
  }
  return found;
}

std::optional<non_finite_watch::finding> trained_parameters::check_finite(std::uint64_t last_step) {
  auto found = watch_.check_finite(last_step);
  return found ? std::optional(named(std::move(*found))) : std::nullopt;
}

std::optional<non_finite_watch::finding> trained_parameters::find_in_weights() {
  const msg::tensor here = weights();
  kernels::non_finite found;
  kernels::host_stream().find_non_finite(here.rows, here.as<float>().data(), &found);
  if (found.place >= here.rows) return std::nullopt;
  return named({0, "a dense weight", 0, found.number, found.place, here.rows});
}

std::string trained_parameters::loss_text(double loss) {
  const std::string spoilt = fmt::format("the loss is {}; ", kind_of(loss));
  if (!is_on_host() || parameter_count() == 0) return spoilt + lower_rates;
  if (const auto found = find_in_weights()) return spoilt + found->description();
  const msg::tensor here = weights();
  const auto numbers = here.as<float>();
  const auto largest = std::ranges::max_element(numbers, {}, [](float number) { return std::abs(number); });
  const auto index = static_cast<std::uint64_t>(largest - numbers.begin());
  const auto found = named({0, "the largest dense weight", 0, *largest, index, numbers.size()});
  return fmt::format("{}{} is {:.3g} (number {} of {}); {}", spoilt, found.what, found.number, found.place, found.count,
                     lower_rates);
}

void trained_parameters::synchronize() {
  const place end = follow(*compute_);
  compute_->synchronize();
  arrive(end);
}

void trained_parameters::arrive(const place& at) {
  watch_.know(at.searches);
  for (; forgotten_means_ < at.means; ++forgotten_means_) {
    if (block_of(means_.front())->is_lost()) {
      check_device(compute_->device());  // throws the device's own failure, if that is the cause
      throw kernels::device_error("an allreduce on CUDA devices was given up", kernels::device_error::reason::given_up);
    }
    means_.pop_front();
  }
}

}  // namespace troupe::actors
