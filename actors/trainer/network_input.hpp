// The input of a network [samples, features], filled from the batch and by servers.

#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "kernels/device_array.hpp"
#include "model/table_split.hpp"

namespace troupe::actors {

/// The network's input on a trainer's device. On a CUDA device servers may write some of its columns there; the others
/// come from the host, packed, and are copied between them. Not thread-safe.
class network_input {
 public:
  /// Resizes to [size, features]; uninitialized. Requires: the former contents are not in use.
  void resize(kernels::stream& on, std::size_t size, std::size_t features);

  float* data() const { return numbers_.data(); }
  std::size_t size() const { return size_; }
  std::size_t features() const { return features_; }
  /// Keeps the numbers alive.
  const std::shared_ptr<std::byte>& owner() const { return numbers_.owner(); }

  /// Returns host memory for `columns` columns, valid until the upload; on the processor, returns the input itself.
  kernels::row_matrix<float> on_host(kernels::stream& on, std::size_t columns);

  /// Copies the columns at `from`, which are those of all `ranges` in turn without gaps, to their positions. `from`:
  /// from `on_host`, or staging memory that stays until the stream has passed.
  void upload(kernels::stream& on, const float* from, std::span<const model::column_range> ranges);

 private:
  kernels::device_array<float> numbers_;
  kernels::device_array<float> packed_;  ///< the columns from the host, before they are copied between the others
  std::shared_ptr<std::byte> staging_;
  std::size_t staging_count_ = 0;
  std::size_t size_ = 0;
  std::size_t features_ = 0;
};

}  // namespace troupe::actors
