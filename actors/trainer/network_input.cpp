#include "actors/trainer/network_input.hpp"

namespace troupe::actors {

void network_input::resize(kernels::stream& on, std::size_t size, std::size_t features) {
  numbers_.resize(on, size * features);
  size_ = size;
  features_ = features;
}

kernels::row_matrix<float> network_input::on_host(kernels::stream& on, std::size_t columns) {
  if (on.device().is_host()) return {numbers_.data(), features_};
  if (const std::size_t count = size_ * columns; count > staging_count_) {
    staging_.reset();
    staging_ = on.device().allocate_staging(count * sizeof(float));
    staging_count_ = count;
  }
  return {reinterpret_cast<float*>(staging_.get()), columns};
}

void network_input::upload(kernels::stream& on, const float* from, std::span<const model::column_range> ranges) {
  std::size_t columns = 0;
  for (const model::column_range& one : ranges) columns += one.count;
  if (on.device().is_host() || columns == 0) return;
  const std::size_t count = size_ * columns;
  if (columns == features_) return on.upload(from, numbers_.data(), count * sizeof(float));
  packed_.resize(on, count);
  on.upload(from, packed_.data(), count * sizeof(float));
  const float* column = packed_.data();
  for (const model::column_range& one : ranges) {
    on.copy_columns(size_, one.count, {column, columns}, {numbers_.data() + one.first, features_});
    column += one.count;
  }
}

}  // namespace troupe::actors
