#include "protocol/repeated_blobs.hpp"

namespace troupe::protocol {

std::vector<blob_entry> sent_blobs::enter(std::span<const msg::blob> blobs, bool come_again) {
  using kind = blob_entry::kind;
  std::vector<blob_entry> entries;
  entries.reserve(blobs.size());
  const std::lock_guard lock(mutex_);
  // First, since new blobs may reuse the memory of released ones.
  const std::vector<blob_entry> gone = come_again ? forget_gone() : std::vector<blob_entry>();
  for (const msg::blob& one : blobs) {
    if (const std::uint64_t known = number_of(one); known != 0) {
      entries.push_back({kind::kept, known});
    } else if (come_again && one.size() >= kept_blob_bytes_min && kept_.size() < sent_blobs_max &&
               !kept_.contains(one.data())) {
      entries.push_back({kind::kept_bytes, ++last_number_});
      kept_.emplace(one.data(), sent{one.owner(), one.size(), last_number_});
    } else {
      entries.emplace_back();
    }
  }
  entries.insert(entries.end(), gone.begin(), gone.end());
  return entries;
}

/// Returns the number under which the other side keeps a blob; 0: it does not.
std::uint64_t sent_blobs::number_of(const msg::blob& one) const {
  const auto found = one.size() < kept_blob_bytes_min ? kept_.end() : kept_.find(one.data());
  if (found == kept_.end() || found->second.size != one.size()) return 0;
  const auto owner = one.owner();
  const bool is_same = !owner.owner_before(found->second.owner) && !found->second.owner.owner_before(owner);
  return is_same ? found->second.number : 0;
}

/// Returns an entry for each kept blob that no later message can have.
std::vector<blob_entry> sent_blobs::forget_gone() {
  std::vector<blob_entry> reported;
  erase_if(kept_, [&](const auto& one) {
    if (!one.second.owner.expired()) return false;
    reported.push_back({blob_entry::kind::forgotten, one.second.number});
    return true;
  });
  return reported;
}

}  // namespace troupe::protocol
