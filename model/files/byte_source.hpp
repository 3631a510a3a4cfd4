// The text of a file, plain or compressed, as a stream of bytes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "model/input_file.hpp"

namespace troupe::model {

enum class compression : std::uint8_t { none, gzip, zstd };

/// What the file's first bytes say, whatever its name is.
result<compression> compression_of(const input_file& file);

/// One pass over a file's text. For one thread.
class byte_source {
 public:
  virtual ~byte_source() = default;

  /// Fills `to` with up to `room` > 0 bytes; returns how many, 0 only at the end. Faults: the file cannot be read, its
  /// compressed data are damaged or cut off, or something else follows them.
  virtual result<std::size_t> read(char* to, std::size_t room) = 0;
};

/// The text of `file` from byte `offset` on, which must be 0 for a compressed file. A compressed file may have several
/// gzip members or zstd frames, one after the other.
std::unique_ptr<byte_source> open_source(std::shared_ptr<const input_file> file, compression how, std::uint64_t offset);

}  // namespace troupe::model
