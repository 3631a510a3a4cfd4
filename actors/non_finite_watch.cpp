#include "actors/non_finite_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/assert.hpp"

namespace troupe::actors {

const char* kind_of(double not_finite) { return std::isnan(not_finite) ? "NaN" : "Inf"; }

std::string non_finite_watch::finding::words(const char* advice) const {
  return fmt::format("{} is {} (number {} of {}); {}", what, kind_of(static_cast<double>(number)), place, count,
                     advice);
}

void non_finite_watch::look(kernels::stream& on, std::uint64_t step, const float* numbers, std::size_t count,
                            const char* what) {
  TROUPE_ASSERT(open_.size() < results_.size());
  TROUPE_ASSERT(open_.empty() || open_.back().step <= step);
  on.find_non_finite(count, numbers, results_.data() + next_++ % results_.size());
  open_.push_back({step, count, what});
}

std::uint64_t non_finite_watch::fetch(kernels::stream& on) {
  if (const std::size_t count = next_ - fetched_; count > 0) {
    const std::size_t first = fetched_ % results_.size();
    const std::size_t until_end = std::min(count, results_.size() - first);
    results_.download(on, first, until_end);
    if (count > until_end) results_.download(on, 0, count - until_end);
  }
  fetched_ = next_;
  if (on.device().is_host()) know(next_);
  return next_;
}

std::optional<non_finite_watch::finding> non_finite_watch::judge(std::uint64_t last_step) {
  for (std::uint64_t i = next_ - open_.size(); i < known_ && open_.front().step <= last_step; ++i) {
    const search one = open_.front();
    const kernels::non_finite found = results_.host()[i % results_.size()];
    open_.pop_front();
    if (found.place < one.count) return finding{one.step, one.what, found.number, found.place, one.count};
  }
  return std::nullopt;
}

}  // namespace troupe::actors
