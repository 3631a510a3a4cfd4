// The unencrypted beginning of a TLS connection. OpenSSL makes room for a message of up to 128 KiB as soon as it is
// announced, by anybody; so one that is longer than any that is needed is noticed here, before OpenSSL sees it.

#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace troupe::links {

constexpr std::size_t tls_message_bytes_max = std::size_t{16} << 10;

class tls_opening {
 public:
  /// Judges the next bytes from the socket, however they are cut; false when they announce too much.
  bool accepts(std::span<const std::byte> bytes);

 private:
  bool accepts_message_part(std::span<const std::byte> part);

  /// The headers of records and of messages, which may come in parts as well.
  template <std::size_t Size>
  struct header {
    std::array<std::byte, Size> bytes{};
    std::size_t filled = 0;

    /// Takes what it needs from the front; true once it is whole.
    bool fill(std::span<const std::byte>& from);
  };

  header<5> record_;
  header<4> message_;
  std::size_t record_left_ = 0;
  std::size_t message_left_ = 0;
  bool in_handshake_ = false;
  bool encrypted_ = false;  // from here on it is no longer ours to read
};

}  // namespace troupe::links
