// A digest that finds any change of the bytes it was made from: XXH3, 128 bits. Not against forgery.

#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace troupe {

/// The digest of bytes that come piece by piece; how they are cut makes no difference.
class byte_digest {
 public:
  byte_digest();

  void add(std::span<const std::byte> bytes);

  /// 32 hexadecimal digits, the most significant first.
  std::string hex() const;

 private:
  struct hash_state;
  struct release {
    void operator()(hash_state* state) const;
  };
  std::unique_ptr<hash_state, release> state_;
};

}  // namespace troupe
