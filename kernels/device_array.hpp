// Numbers in a device's memory, alone or mirrored in the host's. Both grow as needed and never shrink, so that a loop's
// addresses settle. An array is used by one stream, which is waited for when it grows; it may go when that stream has
// passed, and whoever else uses the numbers keeps them (`owner`). Not thread-safe.

#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "kernels/device.hpp"

namespace troupe::kernels {

/// On a device only.
template <class T>
class device_array {
 public:
  static_assert(std::is_trivially_copyable_v<T>);

  /// Room for `count` numbers; uninitialized if it had less room before.
  void resize(stream& on, std::size_t count) {
    if (count > capacity_) {
      if (memory_) on.synchronize();
      memory_.reset();
      memory_ = on.where().allocate(count * sizeof(T));
      capacity_ = count;
    }
    size_ = count;
  }

  T* data() const { return reinterpret_cast<T*>(memory_.get()); }
  std::size_t size() const { return size_; }
  /// Whoever keeps this keeps the numbers.
  const std::shared_ptr<std::byte>& owner() const { return memory_; }

 private:
  std::shared_ptr<std::byte> memory_;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;
};

/// On a device and on the host: two copies, or one and the same if the device is the processor.
template <class T>
class mirrored_array {
 public:
  void resize(stream& on, std::size_t count) {
    numbers_.resize(on, count);
    if (on.where().is_host() || count <= capacity_) return;
    staging_.reset();
    staging_ = on.where().allocate_staging(count * sizeof(T));
    capacity_ = count;
  }

  std::size_t size() const { return numbers_.size(); }
  T* data() const { return numbers_.data(); }
  T* host() const { return staging_ ? reinterpret_cast<T*>(staging_.get()) : numbers_.data(); }

  /// Makes the device's numbers the host's, and the other way round when the stream has passed.
  void upload(stream& on) const {
    if (staging_) on.upload(host(), data(), size() * sizeof(T));
  }
  void download(stream& on) const {
    if (staging_) on.download(data(), host(), size() * sizeof(T));
  }

 private:
  device_array<T> numbers_;
  std::shared_ptr<std::byte> staging_;
  std::size_t capacity_ = 0;
};

/// The numbers at `from` for the host to read: where they are if the device is the processor, else in `copy`. Waits for
/// the stream.
template <class T>
std::span<const T> on_host(stream& on, const T* from, std::size_t count, std::vector<T>& copy) {
  if (on.where().is_host()) return {from, count};
  copy.resize(count);
  on.download(from, copy.data(), count * sizeof(T));
  on.synchronize();
  return copy;
}

/// Fills `to` with the host's `numbers`. Waits for the stream.
template <class T>
void assign(stream& on, std::span<const T> numbers, device_array<T>& to) {
  to.resize(on, numbers.size());
  on.upload(numbers.data(), to.data(), numbers.size_bytes());
  on.synchronize();
}

/// Takes the host's numbers to a device; those that are there already stay where they are.
template <class T>
class uploaded_array {
 public:
  /// `numbers` on the device, when the stream has passed; until then, and on the processor as long as they are used,
  /// they must stay.
  const T* put(stream& on, std::span<const T> numbers) {
    if (on.where().is_host()) return numbers.data();
    copy_.resize(on, numbers.size());
    std::copy(numbers.begin(), numbers.end(), copy_.host());
    copy_.upload(on);
    return copy_.data();
  }

 private:
  mirrored_array<T> copy_;
};

}  // namespace troupe::kernels
