// Blobs that two messages of a link carry, and that travel once: a gradient has the bags of its lookup. The sender
// identifies a blob by its memory. The receiver keeps the blobs that the sender may send again, until the sender
// reports that it will not, since nothing on its side owns them any more.
//
//   sender    lookup {bags kept as 7}   gradient {bags 7, grad}   lookup {forget 7, bags kept as 8}
//   receiver  keeps 7                   takes 7                   drops 7, keeps 8

#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "protocol/blob.hpp"

namespace troupe::protocol {

/// The smallest size of a blob that is kept.
inline constexpr std::size_t kept_blob_bytes_min = 1024;
/// The most blobs that a sender counts as kept, on a link in each direction.
inline constexpr std::size_t sent_blobs_max = std::size_t{1} << 14;
/// The most blobs that a receiver keeps. It needs more, since it drops a frame's old blobs after adding the new ones,
/// and frames of several threads may be sent in another order than they were entered.
inline constexpr std::size_t kept_blobs_max = 4 * sent_blobs_max;

/// How a blob of a message travels.
struct blob_entry {
  enum class kind : std::uint8_t { bytes, kept_bytes, kept, forgotten };

  kind how = kind::bytes;
  std::uint64_t number = 0;  ///< the number under which the receiver keeps it; 0: it does not
  std::size_t width = 0;     ///< with bytes: how many bytes of each 64-bit word travel; 0: all
};

/// The blobs that the other side of a link keeps. Thread: any.
class sent_blobs {
 public:
  /// Returns how the blobs of a message travel, then the numbers of the blobs that the receiver must drop.
  /// `come_again`: a later message may have the same blobs. Requires: the message is sent, and its blobs have owners
  /// until then.
  std::vector<blob_entry> enter(std::span<const msg::blob> blobs, bool come_again);

 private:
  struct sent {
    std::weak_ptr<const void> owner;
    std::size_t size = 0;
    std::uint64_t number = 0;
  };

  std::uint64_t number_of(const msg::blob& one) const;
  std::vector<blob_entry> forget_gone();

  std::mutex mutex_;
  boost::unordered_flat_map<const std::byte*, sent> kept_;  ///< by the address of their first byte
  std::uint64_t last_number_ = 0;
};

/// The blobs that this side keeps for the other one. Each function returns false if a correct sender would not ask for
/// this. Thread: one at a time.
class kept_blobs {
 public:
  bool keep(std::uint64_t number, const msg::blob& one) {
    return kept_.size() < kept_blobs_max && kept_.try_emplace(number, one).second;
  }
  bool take(std::uint64_t number, msg::blob& to) const {
    const auto found = kept_.find(number);
    if (found == kept_.end()) return false;
    to = found->second;
    return true;
  }
  bool forget(std::uint64_t number) { return kept_.erase(number) == 1; }

  std::size_t size() const { return kept_.size(); }

 private:
  boost::unordered_flat_map<std::uint64_t, msg::blob> kept_;
};

}  // namespace troupe::protocol
