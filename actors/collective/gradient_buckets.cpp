#include "actors/collective/gradient_buckets.hpp"

#include <array>
#include <limits>

#include "actors/common/device_tensor.hpp"
#include "base/assert.hpp"

namespace troupe::actors {

std::vector<nn::parameter_range> plan_buckets(const std::vector<nn::parameter_range>& layers, std::size_t first_bytes,
                                              std::size_t bytes) {
  std::vector<nn::parameter_range> buckets;
  bool open = false;
  for (std::size_t i = layers.size(); i-- > 0;) {
    if (open) {
      buckets.back().first = layers[i].first;
      buckets.back().count += layers[i].count;
    } else {
      buckets.push_back(layers[i]);
    }
    const std::size_t limit = buckets.size() == 1 ? first_bytes : bytes;
    open = buckets.back().count * sizeof(float) < limit;
  }
  return buckets;
}

gradient_buckets::gradient_buckets(kernels::stream& on, std::vector<nn::parameter_range> plan)
    : on_(&on), plan_(std::move(plan)), buckets_(plan_.size()) {
  std::size_t count = 0;
  for (std::size_t i = plan_.size(); i-- > 0;) {
    TROUPE_ASSERT(plan_[i].first == count);
    count += plan_[i].count;
  }
  if (!is_on_host()) all_.resize(on, count);
}

void gradient_buckets::enter(std::uint32_t bucket, state next) {
  TROUPE_ASSERT(may_follow(buckets_[bucket].is, next));
  buckets_[bucket].is = next;
}

void gradient_buckets::open() {
  batches_ = 0;
  passes_ = 0;
  for (std::uint32_t i = 0; i < buckets_.size(); ++i) {
    enter(i, state::filling);
    buckets_[i].written = 0;
    buckets_[i].marked = {};
    if (is_on_host()) buckets_[i].grad = msg::tensor_buffer(plan_[i].count, 1);
  }
}

std::uint32_t gradient_buckets::bucket_of(nn::parameter_range range) const {
  std::uint32_t i = 0;
  while (range.first < plan_[i].first) ++i;
  return i;
}

float* gradient_buckets::at(nn::parameter_range range) {
  if (!is_on_host()) return all_.data() + range.first;
  const std::uint32_t i = bucket_of(range);
  return buckets_[i].grad.data() + (range.first - plan_[i].first);
}

/// The first pass writes directly into the bucket.
float* gradient_buckets::gradient_at(nn::parameter_range range) {
  TROUPE_ASSERT(state_of(bucket_of(range)) == state::filling);
  if (passes_ == 1) return at(range);
  further_.resize(*on_, plan_.front().first + plan_.front().count);  // the first bucket ends the buffer
  return further_.data() + range.first;
}

std::optional<std::uint32_t> gradient_buckets::finished(nn::parameter_range range, bool is_last_pass) {
  if (passes_ > 1) {
    float* sum = at(range);
    const std::array<const float*, 2> parts = {sum, further_.data() + range.first};
    on_->sum_in_rank_order(parts, range.count, 1.0F, sum);
  }
  if (!is_last_pass) return std::nullopt;
  const std::uint32_t i = bucket_of(range);
  buckets_[i].written += range.count;
  if (buckets_[i].written < plan_[i].count) return std::nullopt;
  enter(i, state::full);
  return i;
}

msg::tensor gradient_buckets::on_device_now(std::uint32_t bucket) {
  const auto [first, count] = plan_[bucket];
  return on_device({&on_->device(), count, 1, {all_.data() + first, 1}, all_.owner()}, on_->record());
}

void gradient_buckets::mark(std::uint32_t bucket) {
  TROUPE_ASSERT(!is_on_host() && state_of(bucket) == state::full);
  buckets_[bucket].marked = on_device_now(bucket);
}

void gradient_buckets::poison(bool was_passed) {
  batches_ = std::max(batches_ - (was_passed ? 1 : 0), 1U);
  passes_ = std::max(passes_, 1U);
  for (std::uint32_t i = 0; i < buckets_.size(); ++i) {
    on_->fill(plan_[i].count, std::numeric_limits<float>::quiet_NaN(), at(plan_[i]));
    buckets_[i].marked = {};
  }
}

msg::tensor gradient_buckets::share(std::uint32_t bucket) {
  enter(bucket, state::reducing);
  if (batches_ == 0) on_->fill(plan_[bucket].count, 0.0F, at(plan_[bucket]));
  if (is_on_host()) return std::move(buckets_[bucket].grad).freeze();
  if (buckets_[bucket].marked.rows > 0) return std::exchange(buckets_[bucket].marked, {});
  return on_device_now(bucket);
}

}  // namespace troupe::actors
