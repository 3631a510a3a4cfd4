// Limits the unencrypted beginning of a TLS connection. OpenSSL allocates up to 128 KiB for a message as soon as a peer
// announces it, before any authentication. Longer messages than the handshake needs are detected here first.

#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace troupe::links {

constexpr std::size_t tls_message_bytes_max = std::size_t{16} << 10;

class tls_opening {
 public:
  /// Checks the next bytes from the socket, in any pieces; false if they announce too much.
  bool accepts(std::span<const std::byte> bytes);

 private:
  bool accepts_message_part(std::span<const std::byte> part);

  /// A header of a record or message, which may arrive in parts.
  template <std::size_t Size>
  struct header {
    std::array<std::byte, Size> bytes{};
    std::size_t filled = 0;

    /// Moves missing bytes from the front of `from`; true once it is complete.
    bool fill(std::span<const std::byte>& from);
  };

  header<5> record_;
  header<4> message_;
  std::size_t record_left_ = 0;
  std::size_t message_left_ = 0;
  bool in_handshake_ = false;
  bool encrypted_ = false;  // the rest cannot be checked
};

}  // namespace troupe::links
