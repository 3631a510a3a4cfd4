// The text of a file, plain or compressed, as a stream of bytes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "model/input_file.hpp"

namespace troupe::model {

enum class compression : std::uint8_t { none, gzip, zstd };

/// Limit of a frame's window, the largest that zstd accepts. Windows above the usual limit are also compared with the
/// available memory.
constexpr std::uint64_t zstd_window_max = std::uint64_t{1} << 31;
constexpr std::uint64_t zstd_usual_window_max = std::uint64_t{1} << 27;

/// Detects the compression from the file's first bytes. Faults: a known but unsupported one.
result<compression> compression_of(const input_file& file);

/// One pass over a file's text. Thread: one at a time.
class byte_source {
 public:
  virtual ~byte_source() = default;

  /// Reads up to `capacity` > 0 bytes; returns how many, 0 only at the end. Faults: the file cannot be read, its
  /// compressed data are damaged, truncated or followed by other bytes, or need a dictionary or too large a window, or
  /// `stop_asked`.
  virtual result<std::size_t> read(char* to, std::size_t capacity) = 0;

  /// Returns the size of the largest window needed so far: the text that decompression looks back at.
  virtual std::uint64_t window() const { return 0; }
};

/// Opens the text of `file` from byte `offset` on; it must be 0 for a compressed file. A compressed file may be a
/// sequence of gzip members or zstd frames.
std::unique_ptr<byte_source> open_source(std::shared_ptr<const input_file> file, compression how, std::uint64_t offset);

}  // namespace troupe::model
