// The transport of a connection: plain TCP, or TLS over it. No function blocks: it does what is possible at once, and
// returns what to wait for.

#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.hpp"
#include "cluster/links/credentials.hpp"

namespace troupe::links {

enum class io_state {
  done,
  wants_read,   ///< repeat when the socket is readable
  wants_write,  ///< repeat when the socket is writable
  ended,        ///< the other side has closed its sending side
  failed
};

struct io_outcome {
  io_state state = io_state::done;
  /// Bytes read or written, in any state.
  std::size_t bytes = 0;
  /// After a read: the socket has no more bytes for now.
  bool drained = false;
  /// The fault in state `failed`. The text does not name the other side.
  fault why;
};

/// The side of a connection.
enum class link_side { connector, acceptor };

class transport {
 public:
  virtual ~transport() = default;

  /// Performs the TLS handshake; nothing for plain TCP.
  virtual io_outcome open() = 0;

  /// Reads up to `into.size()` bytes; `done` if there were any.
  virtual io_outcome read(std::span<std::byte> into) = 0;

  /// Writes from the front of `parts`; `done` if all were written. The next call must begin with the rest.
  virtual io_outcome write(std::span<const iovec> parts) = 0;

  /// Returns the bytes received from the socket, including those of an incomplete TLS record.
  virtual std::uint64_t bytes_in() const = 0;

  /// Returns whether reads and writes share state, so that only one may run at a time.
  virtual bool one_at_a_time() const = 0;

  /// Returns the properties that `open` has found.
  virtual const channel& over() const = 0;

  /// Returns whether the transport detects changed bytes.
  virtual bool protects_bytes() const = 0;

  /// Returns the limit of one write, so that other threads get the mutex.
  virtual std::size_t write_budget() const = 0;
};

/// Makes a transport over a connected, non-blocking socket. Requires: the socket outlives it.
std::unique_ptr<transport> plain_transport(int socket);
/// `mine.tls`: how to encrypt; the rest of `mine`: which peers a connector accepts.
std::unique_ptr<transport> tls_transport(int socket, const credentials& mine, link_side side);

/// Converts the errno of a failed socket call.
io_outcome failed_io(int error_number);

}  // namespace troupe::links
