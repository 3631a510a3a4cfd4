// Reads the lines of a text sequentially, with little memory.

#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/files/byte_source.hpp"

namespace troupe::model {

/// One pass over the lines of a text. Thread: one at a time.
class line_reader {
 public:
  /// Limit of a line's bytes.
  static constexpr std::size_t line_max = std::size_t{1} << 20;

  /// Readable bytes after a line, of any value, for loads of whole words.
  static constexpr std::size_t padding = 8;

  /// `from` begins at byte `offset` of the text, after `lines_before` lines. `file`: its name in messages.
  line_reader(std::unique_ptr<byte_source> from, std::string file, std::uint64_t offset = 0,
              std::uint64_t lines_before = 0);

  /// Returns the next line that is not blank, valid until the next call; null after the last line. Removes the line's
  /// end (LF or CR LF, which may be missing in the last line) and the text's byte order mark. A line of only blanks and
  /// tabs is blank. Faults: the source's, a line that is too long, a zero byte.
  result<std::optional<std::string_view>> next();

  /// Returns how many lines `next` has returned.
  std::uint64_t returned() const { return returned_; }

  /// Returns the number of the last line read, from 1.
  std::uint64_t line() const { return line_; }

  /// Returns the number of blank lines skipped, and the line number of the first one, or 0.
  std::uint64_t blank_lines() const { return blank_lines_; }
  std::uint64_t first_blank_line() const { return first_blank_line_; }

  /// Returns the bytes of the window that decompression has needed so far.
  std::uint64_t window() const { return from_->window(); }

  /// Returns the offset of the next line in the text.
  std::uint64_t offset() const { return offset_ + begin_; }

 private:
  result<std::size_t> refill();
  std::string_view take(std::size_t end, std::size_t behind);

  std::unique_ptr<byte_source> from_;
  std::string file_;
  std::vector<char> buffer_;
  std::uint64_t offset_;     // the offset in the text of the buffer's first byte
  std::size_t begin_ = 0;    // the beginning of the next line
  std::size_t scanned_ = 0;  // no line end in [begin_, scanned_)
  std::size_t end_ = 0;
  std::uint64_t line_;
  std::uint64_t returned_ = 0;
  std::uint64_t blank_lines_ = 0;
  std::uint64_t first_blank_line_ = 0;
  bool ended_ = false;
};

static_assert(std::endian::native == std::endian::little, "a word's first byte is taken to be its lowest");

/// Returns the first `separator` in [from, to), or `to`. Reads eight bytes at a time, and so up to seven bytes after
/// `to`.
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

/// Returns how often `wanted` occurs in `text`, 16 bytes at a time.
inline std::size_t count_of(std::string_view text, char wanted) {
  using bytes [[gnu::vector_size(16)]] = signed char;
  constexpr std::size_t rounds_max = 127;  // the largest count that a byte can hold
  std::size_t count = 0;
  const char* next = text.data();
  for (std::size_t chunks = text.size() / sizeof(bytes); chunks > 0;) {
    bytes found{};
    for (std::size_t left = std::min(chunks, rounds_max); left > 0; --left, --chunks, next += sizeof(bytes)) {
      bytes chunk;
      std::memcpy(&chunk, next, sizeof(chunk));
      found -= chunk == wanted;  // -1 for each match
    }
    for (std::size_t i = 0; i < sizeof(bytes); ++i) count += static_cast<std::size_t>(found[i]);
  }
  return count + static_cast<std::size_t>(std::count(next, text.data() + text.size(), wanted));
}

}  // namespace troupe::model
