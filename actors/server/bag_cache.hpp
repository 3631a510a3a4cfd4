// The bags of lookups, kept on a table's device until their gradients come back: a gradient has the same bags as its
// lookup, also from another process (protocol/repeated_blobs.hpp), so they are uploaded only once a step.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/device_array.hpp"
#include "kernels/embedding_bag.hpp"
#include "protocol/messages.hpp"

namespace troupe::actors {

/// Returns the bags of a `bag_lookup` or `bag_gradient` as a view, valid as long as the message's blobs.
kernels::bags_view view_of(const auto& message) {
  return {message.indices.template as<std::int64_t>(), message.offsets.template as<std::int64_t>(),
          message.weights.template as<float>()};
}

/// Uploads the bags of a `bag_lookup` or `bag_gradient` into `buffers`; pinned memory is not copied by the host.
kernels::bags_view put_bags(kernels::uploaded_bags& buffers, kernels::stream& on, const auto& message) {
  return buffers.put(
      on, view_of(message),
      {message.indices.pinned_memory(), message.offsets.pinned_memory(), message.weights.pinned_memory()});
}

/// The cache of one table. Not thread-safe.
class bag_cache {
 public:
  /// Keeps the bags of the last `count` lookups whose gradients have not come.
  explicit bag_cache(std::uint64_t count) : kept_max_(count) {}

  /// Returns the bags on the device of `on`, uploaded if needed, for use on that stream before the next call.
  kernels::bags_view put(kernels::stream& on, const msg::bag_lookup& wanted) {
    if (const kept_lookup* known = find(wanted)) return known->view;
    kept_lookup& next = place_for_next();
    next.number = ++count_;
    next.indices = same_bytes(wanted.indices);
    next.offsets = same_bytes(wanted.offsets);
    next.weights = same_bytes(wanted.weights);
    next.view = put_bags(next.buffers, on, wanted);
    return next.view;
  }

  /// Returns whether the bags of a lookup or a gradient are cached.
  bool has(const auto& message) const { return find(message) != nullptr; }

  /// Returns the bags of a gradient if they are still cached. They stay valid until `free_taken`.
  std::optional<kernels::bags_view> take(const msg::bag_gradient& grad) {
    const kept_lookup* known = find(grad);
    if (known == nullptr) return std::nullopt;
    kept_[static_cast<std::size_t>(known - kept_.data())].is_taken = true;
    return known->view;
  }

  /// Frees the entries of all bags that `take` has returned, for later lookups. Requires: the use of those bags has
  /// been enqueued on the stream.
  void free_taken() {
    for (kept_lookup& one : kept_)
      if (std::exchange(one.is_taken, false)) one.number = 0;
  }

 private:
  /// Recognizes a blob by a weak reference, without owning it.
  class same_bytes {
   public:
    same_bytes() = default;
    explicit same_bytes(const msg::blob& bytes) : owner_(bytes.owner()), data_(bytes.data()), size_(bytes.size()) {}

    bool are(const msg::blob& others) const {
      const auto owner = others.owner();
      return data_ == others.data() && size_ == others.size() && !owner_.owner_before(owner) &&
             !owner.owner_before(owner_);
    }

    bool are_gone() const { return owner_.expired(); }

   private:
    std::weak_ptr<const void> owner_;
    const std::byte* data_ = nullptr;
    std::size_t size_ = 0;
  };

  struct kept_lookup {
    std::uint64_t number = 0;  // 0: free
    bool is_taken = false;     // by a gradient
    same_bytes indices, offsets, weights;
    kernels::uploaded_bags buffers;
    kernels::bags_view view;
  };

  const kept_lookup* find(const auto& message) const {
    const auto known = std::ranges::find_if(kept_, [&](const kept_lookup& one) {
      return one.number > 0 && !one.is_taken && one.indices.are(message.indices) && one.offsets.are(message.offsets) &&
             one.weights.are(message.weights);
    });
    return known == kept_.end() ? nullptr : &*known;
  }

  /// Returns a free entry, or else the oldest that no gradient has taken.
  kept_lookup& place_for_next() {
    // A lookup whose bags have been freed gets no gradient.
    const auto is_free = [](const kept_lookup& one) {
      return one.number == 0 || (!one.is_taken && one.indices.are_gone());
    };
    if (const auto free = std::ranges::find_if(kept_, is_free); free != kept_.end()) return *free;
    const auto is_waiting = [](const kept_lookup& one) { return !one.is_taken; };
    if (static_cast<std::uint64_t>(std::ranges::count_if(kept_, is_waiting)) < kept_max_) return kept_.emplace_back();
    return *std::ranges::min_element(kept_, {}, [](const kept_lookup& one) {
      return one.is_taken ? std::numeric_limits<std::uint64_t>::max() : one.number;
    });
  }

  std::uint64_t kept_max_;
  std::vector<kept_lookup> kept_;
  std::uint64_t count_ = 0;
};

}  // namespace troupe::actors
