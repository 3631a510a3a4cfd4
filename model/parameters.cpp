#include "model/parameters.hpp"

namespace troupe::model {

std::vector<parameter_range> plan_buckets(const std::vector<parameter_range>& layers, std::size_t first_bytes,
                                          std::size_t bytes) {
  std::vector<parameter_range> buckets;
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

}  // namespace troupe::model
