#include "protocol/narrow_words.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "base/assert.hpp"

namespace troupe::protocol {

namespace {

constexpr std::size_t word_bytes = sizeof(std::uint64_t);

template <class T>
msg::blob fill(std::size_t count, auto&& write) {
  auto numbers = std::make_shared_for_overwrite<T[]>(count);
  write(numbers.get());
  const T* first = numbers.get();
  return {std::move(numbers), first, count * sizeof(T)};
}

template <std::size_t Width>
void narrow(std::span<const std::uint64_t> words, std::byte* to) {
  for (const std::uint64_t word : words) {
    std::memcpy(to, &word, Width);
    to += Width;
  }
}

template <std::size_t Width>
void widen(const std::byte* from, std::span<std::uint64_t> words) {
  for (std::uint64_t& word : words) {
    word = 0;
    std::memcpy(&word, from, Width);
    from += Width;
  }
}

/// Calls `use` with the width as a constant: a copy of constant size is a single instruction.
void with_constant(std::size_t width, auto&& use) {
  TROUPE_ASSERT(is_narrow(width));
  if (width == 2) return use.template operator()<2>();
  if (width == 3) return use.template operator()<3>();
  use.template operator()<4>();
}

}  // namespace

std::size_t width_of(const msg::blob& words) {
  constexpr std::size_t block = 512;  // the first numbers already show that a blob holds something else
  const bool is_whole =
      words.size() % word_bytes == 0 && reinterpret_cast<std::uintptr_t>(words.data()) % word_bytes == 0;
  if (!is_whole || words.size() < narrowed_blob_bytes_min || words.size() > msg::blob::max_bytes) return word_bytes;
  const auto all = words.as<std::uint64_t>();
  std::uint64_t set = 0;
  for (std::size_t at = 0; at < all.size(); at += block) {
    for (const std::uint64_t word : all.subspan(at, std::min(block, all.size() - at))) set |= word;
    if (std::bit_width(set) > 32) return word_bytes;
  }
  return std::max<std::size_t>(2, (static_cast<std::size_t>(std::bit_width(set)) + 7) / 8);
}

msg::blob narrowed(const msg::blob& words, std::size_t width) {
  const auto all = words.as<std::uint64_t>();
  return fill<std::byte>(all.size() * width, [&](std::byte* to) {
    with_constant(width, [&]<std::size_t Width>() { narrow<Width>(all, to); });
  });
}

msg::blob widened(const msg::blob& narrow, std::size_t width) {
  const std::size_t count = narrow.size() / width;
  return fill<std::uint64_t>(count, [&](std::uint64_t* to) {
    with_constant(width, [&]<std::size_t Width>() { widen<Width>(narrow.data(), {to, count}); });
  });
}

}  // namespace troupe::protocol
