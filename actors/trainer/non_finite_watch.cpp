#include "actors/trainer/non_finite_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/assert.hpp"

namespace troupe::actors {

const char* kind_of(double not_finite) { return std::isnan(not_finite) ? "NaN" : "Inf"; }

std::string non_finite_watch::finding::description(const char* advice) const {
  return fmt::format("{} is {} (number {} of {}); {}", what, kind_of(static_cast<double>(number)), place, count,
                     advice);
}

void non_finite_watch::look(kernels::stream& on, std::uint64_t step, const float* numbers, std::size_t count,
                            const char* what, std::optional<std::size_t> first) {
  TROUPE_ASSERT(open_.size() < open_max_);
  TROUPE_ASSERT(open_.empty() || open_.back().step <= step);
  const std::size_t slot = slot_++ % results_.size();
  on.find_non_finite(count, numbers, results_.data() + slot);
  open_.push_back({step, count, what, first, slot});
  ++next_;
}

/// The next searches start again at slot 0 if the remaining slots cannot hold a step's searches: so each step makes the
/// same calls.
std::uint64_t non_finite_watch::fetch(kernels::stream& on) {
  if (const std::size_t count = next_ - fetched_; count > 0) {
    const std::size_t end = slot_ % results_.size();
    const std::size_t first = (end + results_.size() - count) % results_.size();
    const std::size_t until_end = std::min(count, results_.size() - first);
    results_.download(on, first, until_end);
    if (count > until_end) results_.download(on, 0, count - until_end);
    slot_ = end + step_max_ > results_.size() ? 0 : end;
  }
  fetched_ = next_;
  if (on.device().is_host()) know(next_);
  return next_;
}

std::optional<non_finite_watch::finding> non_finite_watch::check_finite(std::uint64_t last_step) {
  for (std::uint64_t i = next_ - open_.size(); i < known_ && open_.front().step <= last_step; ++i) {
    const search one = open_.front();
    const kernels::non_finite found = results_.host()[one.slot];
    open_.pop_front();
    if (found.place < one.count) return finding{one.step, one.what, one.first, found.number, found.place, one.count};
  }
  return std::nullopt;
}

}  // namespace troupe::actors
