// The network's input on a trainer's device. On a CUDA device servers may fill some of its columns there; the others
// come from the host, without gaps, and are put between them.

#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "kernels/device_array.hpp"

namespace troupe::actors {

/// Not thread-safe.
class network_input {
 public:
  /// [size, features]; uninitialized. Nobody may be using what was there.
  void resize(kernels::stream& on, std::size_t size, std::size_t features);

  float* data() const { return numbers_.data(); }
  std::size_t size() const { return size_; }
  std::size_t features() const { return features_; }
  /// Whoever keeps this keeps the numbers.
  const std::shared_ptr<std::byte>& owner() const { return numbers_.owner(); }

  /// Room for as many columns on the host, until they have been uploaded; on the processor, the input itself.
  kernels::row_matrix<float> on_host(kernels::stream& on, std::size_t columns);

  /// Columns that lie side by side.
  struct column_range {
    std::size_t first = 0;
    std::size_t count = 0;
  };

  /// Takes the columns of `on_host`, which are those of all `ranges` in turn, to where they belong.
  void upload(kernels::stream& on, std::span<const column_range> ranges);

 private:
  kernels::device_array<float> numbers_;
  kernels::device_array<float> packed_;  ///< what has come from the host, before it is put between the others
  std::shared_ptr<std::byte> staging_;
  std::size_t staging_count_ = 0;
  std::size_t size_ = 0;
  std::size_t features_ = 0;
};

}  // namespace troupe::actors
