// Finding the end of a field.

#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace troupe::model {

static_assert(std::endian::native == std::endian::little, "a word's first byte is taken to be its lowest");

/// Returns the first `separator` in [from, to), or `to`. Reads eight bytes at a time, up to seven of them after `to`.
inline const char* field_end(const char* from, const char* to, char separator) {
  constexpr std::uint64_t ones = 0x0101010101010101;
  const std::uint64_t wanted = ones * static_cast<unsigned char>(separator);
  for (; from < to; from += sizeof(wanted)) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, sizeof(word));
    // The lowest set bit belongs to the first byte that is zero after the exclusive or.
    const std::uint64_t differing = word ^ wanted;
    const std::uint64_t found = (differing - ones) & ~differing & (ones << 7);
    if (found != 0) {
      const char* const end = from + std::countr_zero(found) / 8;
      return end < to ? end : to;
    }
  }
  return to;
}

}  // namespace troupe::model
