#include "trace/memory_budget.hpp"

#include <fmt/format.h>

#include "base/units.hpp"

namespace troupe::trace {

std::string memory_budget::problem() const {
  return fmt::format(
      "takes at least {} of memory, together with the files read before it; the limit is {}, a share of what is "
      "available: read fewer files at once, free memory, or record less (--trace-filter, --trace ring)",
      size_text(taken_ + wanted_), size_text(limit_));
}

}  // namespace troupe::trace
