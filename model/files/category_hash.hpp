// The hashing trick: maps every text to a row of a table, without a vocabulary.

#pragma once

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>
#include <string_view>

#include "base/uint128.hpp"

namespace troupe::model {

/// Row 0 for an empty text (a missing value), else 1 + XXH3(text) % (rows - 1).
class category_hash {
 public:
  /// Requires: `rows` is at least 2, at most 2^32.
  explicit category_hash(std::uint64_t rows) : buckets_(rows - 1), reciprocal_(~std::uint64_t{0} / buckets_) {}

  std::uint32_t row_of(std::string_view text) const {
    if (text.empty()) return 0;
    const std::uint64_t hash =
        text.size() == usual_size ? hash_of_usual(text.data()) : XXH3_64bits(text.data(), text.size());
    // Cheaper than a division: the quotient by the truncated reciprocal is at most one too small.
    const std::uint64_t quotient = multiply_high(hash, reciprocal_);
    const std::uint64_t rest = hash - quotient * buckets_;
    return static_cast<std::uint32_t>(1 + (rest < buckets_ ? rest : rest - buckets_));
  }

 private:
  // Criteo's categories are eight digits. For a text of constant length, the hash compiles to a few instructions.
  static constexpr std::size_t usual_size = 8;
  [[gnu::flatten]] static std::uint64_t hash_of_usual(const char* text) { return XXH3_64bits(text, usual_size); }

  std::uint64_t buckets_;
  std::uint64_t reciprocal_;
};

}  // namespace troupe::model
