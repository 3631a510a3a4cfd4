#include "nn/ids.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "nn/module.hpp"
#include "nn/samples.hpp"

namespace troupe::nn {

bool id_range::has(float number) const {
  const float id = number * scale;
  return id >= 0 && id < static_cast<float>(rows) && std::trunc(id) == id;
}

std::string id_range::text() const {
  return fmt::format("a whole number between 0 and {}{}, an id", rows - 1,
                     scale == 1 ? "" : fmt::format(" once multiplied by {}", scale));
}

void check_takes_computed(const module& of) {
  if (of.ids()) refuse(of, "takes ids, and gets what another layer computes; put it first");
}

void check_ids(const module& of, const tensor_view& input) {
  const auto range = of.ids();
  if (!range) return;
  const auto ids = input.as<float>();
  const auto wrong = std::ranges::find_if_not(ids, [&range](float number) { return range->has(number); });
  if (wrong == ids.end()) return;
  const troupe::shape& shape = input.shape();
  const std::size_t columns = shape[shape.dimensions() - 1];
  const bool is_image = shape.dimensions() > 2;
  const std::size_t rows = is_image ? shape[shape.dimensions() - 2] : shape[0];
  const auto place = static_cast<std::size_t>(wrong - ids.begin());
  refuse(of, fmt::format("{}row {}, column {} (from 0): {}: must be {}",
                         is_image ? fmt::format("image {}, ", place / columns / rows) : "", place / columns % rows,
                         place % columns, *wrong, range->text()));
}

}  // namespace troupe::nn
