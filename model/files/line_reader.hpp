// Reads the lines of a text sequentially, with little memory.

#pragma once

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

  /// Returns the next line without its end (LF or CR LF; the last line may lack it) and without the text's byte order
  /// mark, valid until the next call; null after the last line. Faults: the source's, a line that is too long, a zero
  /// byte.
  result<std::optional<std::string_view>> next();

  /// Returns the number of the last line of `next`, from 1.
  std::uint64_t line() const { return line_; }

  /// Returns the offset of the next line in the text.
  std::uint64_t offset() const { return offset_ + begin_; }

 private:
  result<std::size_t> refill();
  std::string_view take(std::size_t end, std::size_t behind);

  std::unique_ptr<byte_source> from_;
  std::string file_;
  std::vector<char> buffer_;
  std::uint64_t offset_;     // of the buffer's first byte in the text
  std::size_t begin_ = 0;    // of the next line
  std::size_t scanned_ = 0;  // no line end in [begin_, scanned_)
  std::size_t end_ = 0;
  std::uint64_t line_;
  bool ended_ = false;
};

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
