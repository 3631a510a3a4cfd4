// What carries the bytes of a connection: TCP as it is, or TLS over it. Nothing here waits: an attempt does what can be
// done at once and says what to wait for.

#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.hpp"
#include "links/credentials.hpp"

namespace troupe::links {

enum class io_state {
  done,
  wants_read,   ///< try again when the socket can be read
  wants_write,  ///< try again when the socket can be written
  ended,        ///< the other side sends no more
  failed
};

struct io_outcome {
  io_state state = io_state::done;
  /// How many were read or written, also where the state is not `done`.
  std::size_t bytes = 0;
  /// After a read: the socket is known to hold no more for now.
  bool drained = false;
  /// Where the state is `failed`. The text does not name the other side.
  fault why;
};

/// Which side of a connection one is.
enum class link_side { connector, acceptor };

class transport {
 public:
  virtual ~transport() = default;

  /// What comes before the first byte: nothing, or the handshake of TLS.
  virtual io_outcome open() = 0;

  /// Reads up to as many bytes as `into` has; `done` if there were any.
  virtual io_outcome read(std::span<std::byte> into) = 0;

  /// Writes from the front of `parts`; `done` if they all went. The next call must begin with what was left.
  virtual io_outcome write(std::span<const iovec> parts) = 0;

  /// All bytes that have come from the socket, those of half a TLS record among them.
  virtual std::uint64_t bytes_in() const = 0;

  /// Reads and writes share state: only one of them at a time.
  virtual bool one_at_a_time() const = 0;

  /// What `open` has found.
  virtual const channel& over() const = 0;

  /// Whether bytes that come are those that were sent, or none.
  virtual bool protects_bytes() const = 0;

  /// The most that should be written in one go, so that others get their turn.
  virtual std::size_t write_budget() const = 0;
};

/// On a connected, non-blocking socket, which stays the caller's and must live longer.
std::unique_ptr<transport> plain_transport(int socket);
/// `mine.tls` says how, and the rest of `mine` whom a connector takes.
std::unique_ptr<transport> tls_transport(int socket, const credentials& mine, link_side side);

/// What the number of a failed call on a socket means for a link.
io_outcome failed_io(int error_number);

}  // namespace troupe::links
