#include "troupe/runtime/gradient_writers.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace troupe::runtime {

void checked_places::take(const nn::parameter_range& which, std::span<const nn::parameter_range>& from) const {
  if (from.empty() || from.back().first != which.first || from.back().count != which.count)
    throw error(error_kind::input, fmt::format("{}: backward_parameters writes {} parameters from {} on; {}",
                                               module_.type(), which.count, which.first,
                                               from.empty() ? "all were written"
                                                            : fmt::format("by its ranges, {} from {} on are next",
                                                                          from.back().count, from.back().first)));
  from = from.first(from.size() - 1);
}

void checked_places::check_end() const {
  if (!left_.empty())
    throw error(error_kind::input, fmt::format("{}: backward_parameters has not written the {} parameters from {} on",
                                               module_.type(), left_.back().count, left_.back().first));
}

}  // namespace troupe::runtime
