// Little-endian numbers in frames, hellos and handshakes.

#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace troupe::links {

static_assert(std::endian::native == std::endian::little, "numbers travel little-endian, as they lie in memory");

/// Reads the number at `offset`. Requires: all of its bytes are in `bytes`.
template <class T>
T number_at(std::span<const std::byte> bytes, std::size_t offset) {
  static_assert(std::is_unsigned_v<T>);
  T number = 0;
  std::memcpy(&number, bytes.data() + offset, sizeof(T));
  return number;
}

template <class T>
void put_number(std::span<std::byte> bytes, std::size_t offset, T number) {
  static_assert(std::is_unsigned_v<T>);
  std::memcpy(bytes.data() + offset, &number, sizeof(T));
}

template <class T>
void append_number(std::vector<std::byte>& bytes, T number) {
  bytes.resize(bytes.size() + sizeof(T));
  put_number(bytes, bytes.size() - sizeof(T), number);
}

inline void append(std::vector<std::byte>& bytes, std::span<const std::byte> more) {
  const std::size_t before = bytes.size();
  bytes.resize(before + more.size());
  if (!more.empty()) std::memcpy(bytes.data() + before, more.data(), more.size());
}

}  // namespace troupe::links
