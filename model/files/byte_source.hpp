// The text of a file, plain or compressed, as a stream of bytes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "model/input_file.hpp"

namespace troupe::model {

enum class compression : std::uint8_t { none, gzip, zstd };

/// Limit of a frame's window, the largest that zstd takes. Those above the usual limit are also compared with the
/// memory that is available.
constexpr std::uint64_t zstd_window_max = std::uint64_t{1} << 31;
constexpr std::uint64_t zstd_usual_window_max = std::uint64_t{1} << 27;

/// Detects the compression by the file's first bytes. Faults: a known one that is not read.
result<compression> compression_of(const input_file& file);

/// One pass over a file's text. Thread: one at a time.
class byte_source {
 public:
  virtual ~byte_source() = default;

  /// Reads up to `room` > 0 bytes; returns how many, 0 only at the end. Faults: the file cannot be read, its compressed
  /// data are damaged or truncated, other bytes follow them, they need a dictionary or too large a window, or
  /// `stop_asked`.
  virtual result<std::size_t> read(char* to, std::size_t room) = 0;

  /// Returns the bytes of the largest window that decompressing has needed so far: the text that it looks back at.
  virtual std::uint64_t window() const { return 0; }
};

/// Opens the text of `file` from byte `offset` on. Requires: it is 0 for a compressed file. A compressed file may be a
/// sequence of gzip members or zstd frames.
std::unique_ptr<byte_source> open_source(std::shared_ptr<const input_file> file, compression how, std::uint64_t offset);

}  // namespace troupe::model
