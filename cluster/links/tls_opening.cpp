#include "cluster/links/tls_opening.hpp"

#include <algorithm>

namespace troupe::links {

template <std::size_t Size>
bool tls_opening::header<Size>::fill(std::span<const std::byte>& from) {
  const std::size_t taken = std::min(Size - filled, from.size());
  std::copy_n(from.begin(), taken, bytes.begin() + static_cast<std::ptrdiff_t>(filled));
  from = from.subspan(taken);
  filled += taken;
  if (filled < Size) return false;
  filled = 0;
  return true;
}

bool tls_opening::accepts(std::span<const std::byte> bytes) {
  constexpr std::byte handshake_record{22};
  constexpr std::byte encrypted_record{23};
  while (!bytes.empty() && !encrypted_) {
    if (record_left_ == 0) {
      if (!record_.fill(bytes)) break;
      in_handshake_ = record_.bytes[0] == handshake_record;
      encrypted_ = record_.bytes[0] == encrypted_record;
      record_left_ =
          std::to_integer<std::size_t>(record_.bytes[3]) << 8 | std::to_integer<std::size_t>(record_.bytes[4]);
      continue;
    }
    const auto part = bytes.first(std::min(record_left_, bytes.size()));
    if (in_handshake_ && !accepts_message_part(part)) return false;
    record_left_ -= part.size();
    bytes = bytes.subspan(part.size());
  }
  return true;
}

bool tls_opening::accepts_message_part(std::span<const std::byte> part) {
  while (!part.empty()) {
    if (message_left_ == 0) {
      if (!message_.fill(part)) break;
      for (std::size_t i = 1; i < message_.bytes.size(); ++i)
        message_left_ = message_left_ << 8 | std::to_integer<std::size_t>(message_.bytes[i]);
      if (message_left_ > tls_message_bytes_max) return false;
      continue;
    }
    const std::size_t skipped = std::min(message_left_, part.size());
    message_left_ -= skipped;
    part = part.subspan(skipped);
  }
  return true;
}

}  // namespace troupe::links
