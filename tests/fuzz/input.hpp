// An input as a sequence of small numbers, from which targets build messages whose fields mostly match. Past its end
// all numbers are 0.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace troupe::fuzz {

class input {
 public:
  explicit input(std::span<const std::byte> all) : rest_(all) {}

  bool empty() const { return rest_.empty(); }
  std::span<const std::byte> rest() const { return rest_; }

  std::uint8_t byte() { return number<std::uint8_t>(); }

  /// A number with arbitrary bits.
  template <class T>
  T number() {
    static_assert(std::is_unsigned_v<T>);
    T x = 0;
    const auto from = take(sizeof x);
    if (!from.empty()) std::memcpy(&x, from.data(), from.size());
    return x;
  }

  /// A number in [0, limit), from one byte.
  std::uint32_t below(std::uint32_t limit) { return byte() % limit; }

  /// Mostly a small number, from one byte; some bytes choose a number at the edge of a range.
  std::uint64_t count() {
    constexpr std::uint8_t edges_begin = 246;
    constexpr std::array<std::uint64_t, 10> edges = {
        UINT64_MAX, UINT64_MAX - 1,         std::uint64_t{1} << 63,       INT64_MAX, std::uint64_t{1} << 32,
        UINT32_MAX, std::uint64_t{1} << 30, (std::uint64_t{1} << 30) + 1, 16'384,    16'400};
    const std::uint8_t one = byte();
    return one < edges_begin ? one : edges[one - edges_begin];
  }

  /// The next `size` bytes, or fewer at the end.
  std::span<const std::byte> take(std::size_t size) {
    const auto front = rest_.first(std::min(size, rest_.size()));
    rest_ = rest_.subspan(front.size());
    return front;
  }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace troupe::fuzz
