// Arrays in device memory, alone or mirrored in host memory. They grow as needed and never shrink, so that addresses
// used in a loop stop changing. An array waits for the given stream before it grows. It may be destroyed when all
// streams that use it have passed; other users keep its memory alive by `owner`. Thread: one at a time.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/device.hpp"

namespace troupe::kernels {

enum class array_memory : std::uint8_t { device, staging };

/// Numbers in device memory, or in staging memory of the host.
template <class T, array_memory Memory>
class growing_array {
 public:
  static_assert(std::is_trivially_copyable_v<T>);

  /// Sets the size to `count`. If the array has to grow, waits for `on`, and the numbers are uninitialized. Requires:
  /// no other stream uses the array after `on` has passed. Throws std::bad_alloc if no memory can hold so many.
  void resize(stream& on, std::size_t count) {
    if (count > capacity_) grow(on, count);
    size_ = count;
  }

  /// Like `resize`, for sizes that vary a little: grows to a quarter more than requested. Returns the data.
  T* make(stream& on, std::size_t count) {
    if (count > capacity_) grow(on, count > count_max ? count : count + count / 4);
    size_ = count;
    return data();
  }

  T* data() const { return reinterpret_cast<T*>(memory_.get()); }
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }
  /// Keeps the memory alive.
  const std::shared_ptr<std::byte>& owner() const { return memory_; }

 private:
  static constexpr std::size_t count_max = std::size_t{PTRDIFF_MAX} / sizeof(T);

  void grow(stream& on, std::size_t count) {
    if (count > count_max) throw std::bad_alloc();
    if (memory_) on.synchronize();  // the pool gives the old memory to other users
    memory_.reset();
    capacity_ = 0;
    device& where = on.device();
    const std::size_t bytes = count * sizeof(T);
    memory_ = Memory == array_memory::device ? where.allocate(bytes) : where.allocate_staging(bytes);
    capacity_ = count;
  }

  std::shared_ptr<std::byte> memory_;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;
};

template <class T>
using device_array = growing_array<T, array_memory::device>;

template <class T>
using staging_array = growing_array<T, array_memory::staging>;

/// Numbers on a device and on the host: two copies, or a single one if the device is the processor.
template <class T>
class mirrored_array {
 public:
  void resize(stream& on, std::size_t count) {
    numbers_.resize(on, count);
    if (!on.device().is_host()) staging_.resize(on, count);
  }

  /// Releases the device's memory, which other owners may keep; the next `resize` allocates new memory.
  void release() { numbers_ = {}; }

  std::size_t size() const { return numbers_.size(); }
  T* data() const { return numbers_.data(); }
  /// Keeps the device's memory alive.
  const std::shared_ptr<std::byte>& owner() const { return numbers_.owner(); }
  T* host() const { return staging_.data() ? staging_.data() : numbers_.data(); }

  /// Copies all numbers from host to device, or from device to host, in the stream's order.
  void upload(stream& on) const {
    if (staging_.data()) on.upload(host(), data(), size() * sizeof(T));
  }
  void download(stream& on) const { download(on, 0, size()); }
  /// Copies `count` of them from `first` on.
  void download(stream& on, std::size_t first, std::size_t count) const {
    if (staging_.data()) on.download(data() + first, host() + first, count * sizeof(T));
  }

 private:
  device_array<T> numbers_;
  staging_array<T> staging_;
};

/// Returns the numbers at `from` for the host to read: in place on the processor, else in `copy`. Waits for the stream.
template <class T>
std::span<const T> on_host(stream& on, const T* from, std::size_t count, std::vector<T>& copy) {
  if (on.device().is_host()) return {from, count};
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

/// Uploads host numbers to a device; on the processor they are used in place.
template <class T>
class uploaded_array {
 public:
  /// Returns the device address of `numbers`, valid once the stream has passed. Overwrites the numbers of the previous
  /// call in the stream's order. `staging`: the owner of the staging memory that contains `numbers`; kept at least
  /// until they are uploaded. Null: they are in other memory, and are copied to staging memory first. Waits only if
  /// many calls' uploads are not over. Requires: on the processor, `numbers` stay valid as long as they are used.
  const T* put(stream& on, std::span<const T> numbers, const std::shared_ptr<const std::byte>& staging = nullptr) {
    if (on.device().is_host() || numbers.empty()) return numbers.data();
    numbers_.make(on, numbers.size());
    upload next = free_upload();
    const T* from = numbers.data();
    if (staging == nullptr) {
      next.copy.make(on, numbers.size());
      std::copy(numbers.begin(), numbers.end(), next.copy.data());
      from = next.copy.data();
    }
    next.staging = staging;
    on.upload(from, numbers_.data(), numbers.size_bytes());
    next.over = on.record();
    uploads_.push_back(std::move(next));
    return numbers_.data();
  }

 private:
  struct upload {
    staging_array<T> copy;
    std::shared_ptr<const std::byte> staging;
    std::unique_ptr<event> over;  ///< the event after which the staging memory is free; null: it is free
  };
  static constexpr std::size_t uploads_max = 4;

  /// Frees the staging memory of all finished uploads, and returns one of them, or a new one.
  upload free_upload() {
    if (uploads_.size() == uploads_max && uploads_.front().over && !uploads_.front().over->is_over())
      uploads_.front().over->wait();
    for (upload& one : uploads_) {
      if (!one.over) continue;
      if (!one.over->is_over()) break;
      one.staging = nullptr;
      one.over = nullptr;
    }
    if (uploads_.empty() || uploads_.front().over) return {};
    upload first = std::move(uploads_.front());
    uploads_.erase(uploads_.begin());
    return first;
  }

  device_array<T> numbers_;
  std::vector<upload> uploads_;  ///< in order; those at the front may be over
};

/// The owners of the staging memory that contains the bags; null for other memory.
struct bags_in_staging {
  std::shared_ptr<const std::byte> indices, offsets, weights;
};

/// The bags of a batch on a device; see `uploaded_array`.
struct uploaded_bags {
  uploaded_array<std::int64_t> indices;
  uploaded_array<std::int64_t> offsets;
  uploaded_array<float> weights;

  bags_view put(stream& on, const bags_view& bags, const bags_in_staging& staging = {}) {
    return {{indices.put(on, bags.indices, staging.indices), bags.indices.size()},
            {offsets.put(on, bags.offsets, staging.offsets), bags.offsets.size()},
            {weights.put(on, bags.weights, staging.weights), bags.weights.size()}};
  }
};

}  // namespace troupe::kernels
