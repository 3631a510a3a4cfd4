// Where a field of a line ends.

#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace troupe::model {

static_assert(std::endian::native == std::endian::little, "a word's first byte is taken to be its lowest");

/// The first `separator` between `from` and `to`, or `to` if there is none. Looks at eight bytes at a time, up to seven
/// of them behind `to`.
inline const char* field_end(const char* from, const char* to, char separator) {
  constexpr std::uint64_t ones = 0x0101010101010101;
  const std::uint64_t wanted = ones * static_cast<unsigned char>(separator);
  for (; from < to; from += sizeof(wanted)) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, sizeof(word));
    // The lowest bit set is that of the first byte that is zero after the exclusive or.
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
