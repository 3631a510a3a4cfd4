#include "troupe/runtime/gradient_writers.hpp"

#include <fmt/format.h>

#include "troupe/error.hpp"

namespace troupe::runtime {

void checked_places::check(const nn::stretch& which) const {
  if (left_.empty() || left_.back().first != which.first || left_.back().count != which.count)
    throw error(error_kind::input, fmt::format("{}: backward_parameters writes {} parameters from {} on; {}",
                                               module_.type(), which.count, which.first,
                                               left_.empty() ? "all were written"
                                                             : fmt::format("by its stretches, {} from {} on are next",
                                                                           left_.back().count, left_.back().first)));
}

void checked_places::check_end() const {
  if (!left_.empty())
    throw error(error_kind::input, fmt::format("{}: backward_parameters has not written the {} parameters from {} on",
                                               module_.type(), left_.back().count, left_.back().first));
}

}  // namespace troupe::runtime
