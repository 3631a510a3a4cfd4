// Numbers on a CUDA device as messages carry them: tensors in its memory, and destinations there for results.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/device.hpp"
#include "protocol/tensor.hpp"

namespace troupe::actors {

/// A matrix within a wider one on a device, and its owner.
struct device_matrix {
  kernels::device* where = nullptr;
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;
  kernels::row_matrix<float> numbers;
  std::shared_ptr<const void> memory;
};

/// A matrix that a stream writes.
class device_block final : public msg::device_memory {
 public:
  /// `written`: the event after which the matrix is written. `lost`: becomes true if the contents become invalid; may
  /// be null.
  device_block(device_matrix what, std::shared_ptr<const kernels::event> written,
               std::shared_ptr<const std::atomic<bool>> lost)
      : what_(std::move(what)), written_(std::move(written)), lost_(std::move(lost)) {}

  kernels::device& device() const { return *what_.where; }
  kernels::row_matrix<const float> numbers() const { return {what_.numbers.data, what_.numbers.stride}; }
  /// The event that a stream waits for before it reads the memory.
  const kernels::event& written() const { return *written_; }
  /// Returns whether the contents are invalid. Requires: a stream that waited for `written` is done. Thread: any.
  bool is_lost() const { return lost_ && *lost_; }
  void read(const std::byte* from, std::size_t size, std::byte* to) const override;

 private:
  device_matrix what_;
  std::shared_ptr<const kernels::event> written_;
  std::shared_ptr<const std::atomic<bool>> lost_;
};

/// Returns the matrix as a tensor. Its memory stays unchanged until the tensor is released and its user's stream is
/// done;
/// in a `device_destination`, until the owner of the destination reuses it. The tensor's size is that of a matrix
/// without gaps, so only the first number is at the start of its bytes: `block_of` knows the layout.
msg::tensor on_device(device_matrix what, std::shared_ptr<const kernels::event> written,
                      std::shared_ptr<const std::atomic<bool>> lost = nullptr);

/// Returns the device memory of a blob; null: it is in host memory.
inline const device_block* block_of(const msg::blob& bytes) { return static_cast<const device_block*>(bytes.device()); }

/// Columns of a device matrix for another actor to fill. Their owner does not use them until that actor reports that it
/// has filled them.
struct device_destination final : msg::lookup_destination {
  explicit device_destination(device_matrix of) : what(std::move(of)) {}

  device_matrix what;
};

/// Returns the columns that a message offers; null: none.
inline const device_destination* columns_of(const std::shared_ptr<const msg::lookup_destination>& destination) {
  return static_cast<const device_destination*>(destination.get());
}

}  // namespace troupe::actors
