// The carrier of all bulk bytes.
//
// Within a process a blob shares the memory it was made from: sending it copies nothing. Between processes it travels
// as a length and raw bytes. Its numbers are little-endian, as they are in memory on every machine this runs on. (CAF
// would pack a std::vector<float> number by number, and corrupt subnormals.)
//
// A blob may also refer to device memory, e.g. a GPU's, as long as it stays in its process. Code that writes the blob
// to a file or sends it to another process gets a host copy.

#pragma once

#include <algorithm>
#include <bit>
#include <caf/binary_deserializer.hpp>
#include <caf/sec.hpp>
#include <caf/span.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "base/digest.hpp"

namespace troupe::msg {

static_assert(std::endian::native == std::endian::little, "blobs hold little-endian numbers as they lie in memory");

/// Memory that the CPU cannot read.
class device_memory {
 public:
  virtual ~device_memory() = default;

  /// Waits until the `size` bytes at `from` have been written, then copies them to `to` in host memory; blocks until
  /// the copy is done. Thread: any. May throw.
  virtual void read(const std::byte* from, std::size_t size, std::byte* to) const = 0;
};

class blob {
 public:
  /// The maximum size of a blob on the wire; a longer one is refused before anything is allocated.
  static constexpr std::uint64_t max_bytes = std::uint64_t{1} << 30;

  blob() = default;

  /// Shares `size` bytes at `data`, kept alive by `owner`. The bytes must not change afterwards.
  blob(std::shared_ptr<const void> owner, const void* data, std::size_t size)
      : data_(std::move(owner), static_cast<const std::byte*>(data)), size_(size) {}

  /// Shares `size` bytes at `data` in device memory, kept alive by `where`.
  static blob on_device(const std::shared_ptr<const device_memory>& where, const void* data, std::size_t size) {
    blob bytes(std::shared_ptr<const void>(where), data, size);
    bytes.device_ = where.get();
    return bytes;
  }

  /// Shares the first `size` bytes of `memory`, host memory that devices read directly (pinned).
  static blob in_pinned_memory(std::shared_ptr<const std::byte> memory, std::size_t size) {
    const auto owner = std::make_shared<const std::shared_ptr<const std::byte>>(std::move(memory));
    blob bytes(owner, owner->get(), size);
    bytes.pinned_ = owner.get();
    return bytes;
  }

  /// Shares a contiguous range of numbers that lives in `owner`.
  template <class Owner, class Range>
  static blob view(std::shared_ptr<Owner> owner, const Range& range) {
    return {std::move(owner), std::data(range), std::size(range) * sizeof(*std::data(range))};
  }

  /// Takes ownership of a vector or another contiguous container.
  template <class Range>
  static blob own(Range&& range) {
    auto owner = std::make_shared<const std::remove_cvref_t<Range>>(std::forward<Range>(range));
    const auto& kept = *owner;
    return view(std::move(owner), kept);
  }

  const std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  /// The memory that holds the bytes; null: host memory.
  const device_memory* device() const { return device_; }
  /// The pinned memory that holds the bytes; null: other memory. A device may still copy from it after the call that
  /// begins the copy: the caller holds this pointer until the copy is done, even if all blobs are gone (`owner`).
  std::shared_ptr<const std::byte> pinned_memory() const { return pinned_ == nullptr ? nullptr : *pinned_; }

  /// Returns the same bytes in host memory; copies them only if they are in device memory.
  blob on_host() const {
    if (device_ == nullptr) return *this;
    auto bytes = std::make_shared_for_overwrite<std::byte[]>(size_);
    device_->read(data(), size_, bytes.get());
    const std::byte* data = bytes.get();
    return {std::shared_ptr<const void>(std::move(bytes)), data, size_};
  }
  /// Holding this pointer keeps the bytes alive.
  std::shared_ptr<const void> owner() const { return data_; }
  bool empty() const { return size_ == 0; }

  /// Returns `size` bytes starting at `first`, shared.
  blob part(std::size_t first, std::size_t size) const {
    blob some(std::shared_ptr<const void>(data_), data_.get() + first, size);
    some.device_ = device_;
    some.pinned_ = pinned_;
    return some;
  }

  /// The bytes as numbers; a trailing remainder shorter than one number is left out.
  template <class T>
  std::span<const T> as() const {
    static_assert(std::is_trivially_copyable_v<T>);
    return {reinterpret_cast<const T*>(data_.get()), size_ / sizeof(T)};
  }

  friend bool operator==(const blob& a, const blob& b) {
    return a.size_ == b.size_ && std::equal(a.data(), a.data() + a.size_, b.data());
  }

 private:
  std::shared_ptr<const std::byte> data_;
  std::size_t size_ = 0;
  // Kept alive by data_'s owner.
  const device_memory* device_ = nullptr;
  const std::shared_ptr<const std::byte>* pinned_ = nullptr;
};

template <class Inspector>
bool inspect(Inspector& f, blob& x) {
  // Some inspectors store bulk bytes separately.
  if constexpr (requires { f.bulk(x); }) {
    return f.bulk(x);
  } else {
    if (f.has_human_readable_format()) {
      std::string text = std::to_string(x.size()) + " bytes";
      return f.apply(text);
    }
    if constexpr (Inspector::is_loading) {
      std::uint64_t size = 0;
      std::uint64_t digest = 0;
      if (!f.value(size) || !f.value(digest)) return false;
      bool fits = size <= blob::max_bytes;
      if constexpr (std::is_same_v<Inspector, caf::binary_deserializer>) fits = fits && size <= f.remaining();
      if (!fits) {
        f.emplace_error(caf::sec::field_invariant_check_failed, "a blob longer than its message or the limit");
        return false;
      }
      auto bytes = std::make_shared_for_overwrite<std::byte[]>(size);
      if (!f.value(caf::span<caf::byte>(reinterpret_cast<caf::byte*>(bytes.get()), size))) return false;
      if (digest_of(bytes.get(), size) != digest) {
        f.emplace_error(caf::sec::field_invariant_check_failed, "a blob whose bytes do not match their digest");
        return false;
      }
      const std::byte* data = bytes.get();
      x = blob(std::move(bytes), data, size);
      return true;
    } else {
      const blob here = x.on_host();
      return f.value(static_cast<std::uint64_t>(here.size())) && f.value(digest_of(here.data(), here.size())) &&
             f.value(caf::span<const caf::byte>(reinterpret_cast<const caf::byte*>(here.data()), here.size()));
    }
  }
}

}  // namespace troupe::msg
