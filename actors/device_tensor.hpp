// Numbers on a CUDA device as messages carry them: tensors in its memory, and room for those that are wanted there.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/device.hpp"
#include "protocol/lookup_destination.hpp"
#include "protocol/tensor.hpp"

namespace troupe::actors {

/// A matrix within a wider one on a device, and who keeps it.
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
  /// `written`: the place in a stream from which on it is.
  /// `lost`: true from when on what is written may be anything; may be null.
  device_block(device_matrix what, std::shared_ptr<const kernels::event> written,
               std::shared_ptr<const std::atomic<bool>> lost)
      : what_(std::move(what)), written_(std::move(written)), lost_(std::move(lost)) {}

  kernels::device& device() const { return *what_.where; }
  kernels::row_matrix<const float> numbers() const { return {what_.numbers.data, what_.numbers.stride}; }
  /// What reads the memory on a stream waits for this.
  const kernels::event& written() const { return *written_; }
  /// To be asked when a stream that has waited for it has passed. May be called from any thread.
  bool is_lost() const { return lost_ && *lost_; }
  void read(const std::byte* from, std::size_t size, std::byte* to) const override;

 private:
  device_matrix what_;
  std::shared_ptr<const kernels::event> written_;
  std::shared_ptr<const std::atomic<bool>> lost_;
};

/// The matrix as a tensor. It stays as it is as long as anybody has the tensor and his stream has not passed; rows in
/// `device_destination`, as long as who offered them leaves them. Its bytes are those of a matrix without gaps, so that
/// only its first number is where they begin: `block_of` knows the others.
msg::tensor on_device(device_matrix what, std::shared_ptr<const kernels::event> written,
                      std::shared_ptr<const std::atomic<bool>> lost = nullptr);

/// The device's memory that a blob is in; null: the host's.
inline const device_block* block_of(const msg::blob& bytes) { return static_cast<const device_block*>(bytes.device()); }

/// Columns of a matrix on a device that somebody else is to fill. Nobody uses them until he says that he has.
class device_destination final : public msg::lookup_destination {
 public:
  explicit device_destination(device_matrix what) : what_(std::move(what)) {}

  const device_matrix& what() const { return what_; }

 private:
  device_matrix what_;
};

/// The columns that a message offers; null: none.
inline const device_destination* columns_of(const std::shared_ptr<const msg::lookup_destination>& room) {
  return static_cast<const device_destination*>(room.get());
}

}  // namespace troupe::actors
