#include "model/layer.hpp"

#include <fmt/format.h>

#include <functional>
#include <numeric>

namespace troupe::model {

std::size_t count_of(const sample_shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies{});
}

std::string to_string(const sample_shape& shape) { return fmt::format("{}", fmt::join(shape, " x ")); }

}  // namespace troupe::model
