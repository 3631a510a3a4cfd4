// The text of a file, plain or compressed, as a stream of bytes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "model/input_file.hpp"

namespace troupe::model {

enum class compression : std::uint8_t { none, gzip, zstd };

/// Detects the compression by the file's first bytes.
result<compression> compression_of(const input_file& file);

/// One pass over a file's text. Thread: one at a time.
class byte_source {
 public:
  virtual ~byte_source() = default;

  /// Reads up to `room` > 0 bytes; returns how many, 0 only at the end. Faults: the file cannot be read, its compressed
  /// data are damaged or truncated, or other bytes follow them.
  virtual result<std::size_t> read(char* to, std::size_t room) = 0;
};

/// Opens the text of `file` from byte `offset` on. Requires: it is 0 for a compressed file. A compressed file may be a
/// sequence of gzip members or zstd frames.
std::unique_ptr<byte_source> open_source(std::shared_ptr<const input_file> file, compression how, std::uint64_t offset);

}  // namespace troupe::model
