#include "actors/common/device_tensor.hpp"

#include <cstring>
#include <tuple>

#include "kernels/device_array.hpp"

namespace troupe::actors {

void device_block::read(const std::byte* from, std::size_t size, std::byte* to) const {
  const auto staging = device().allocate_staging(size);
  const auto on = device().make_stream();
  on->wait(*written_);
  kernels::device_array<float> dense;  // the matrix without gaps
  if (what_.numbers.stride != what_.cols) {
    dense.resize(*on, what_.rows * what_.cols);
    on->copy_columns(what_.rows, what_.cols, numbers(), {dense.data(), what_.cols});
    const auto* const first = reinterpret_cast<const std::byte*>(what_.numbers.data);
    from = reinterpret_cast<const std::byte*>(dense.data()) + (from - first);
  }
  on->download(from, staging.get(), size);
  on->synchronize();
  std::memcpy(to, staging.get(), size);
}

msg::tensor on_device(device_matrix what, std::shared_ptr<const kernels::event> written,
                      std::shared_ptr<const std::atomic<bool>> lost) {
  const auto [rows, cols, numbers] = std::tuple(what.rows, what.cols, what.numbers.data);
  const auto block = std::make_shared<const device_block>(std::move(what), std::move(written), std::move(lost));
  return {dtype::f32, rows, cols, msg::blob::on_device(block, numbers, rows * cols * sizeof(float))};
}

}  // namespace troupe::actors
