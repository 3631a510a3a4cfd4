// XXH3 digests, which detect accidental changes of bytes. They do not protect against forgery.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace troupe {

/// A digest of 64 bits.
std::uint64_t digest_of(const std::byte* data, std::size_t size);
inline std::uint64_t digest_of(std::span<const std::byte> bytes) { return digest_of(bytes.data(), bytes.size()); }

/// The digest of bytes that are added in pieces; it does not depend on the pieces.
class running_digest {
 public:
  running_digest();

  void add(std::span<const std::byte> bytes);

  /// Returns `digest_of` all bytes since the beginning, or since the last `restart`.
  std::uint64_t value() const;
  /// Returns the 128-bit digest of the same bytes, as used in files: 32 hexadecimal digits, the most significant first.
  std::string hex() const;
  void restart();

 private:
  struct hash_state;
  struct release {
    void operator()(hash_state* state) const;
  };
  std::unique_ptr<hash_state, release> state_;
};

}  // namespace troupe
