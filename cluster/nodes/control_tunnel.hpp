// Carries the bytes of CAF's network layer over a link, in frames of at most 64 KiB, so that pings get through in
// between.
//
// CAF has no limits. So the tunnel parses the message headers in both directions and ends the link before it passes on
// a message that is too long. It stops reading the link while CAF is slow to accept bytes.

#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/result.hpp"
#include "cluster/links/link.hpp"
#include "protocol/blob.hpp"

namespace troupe::nodes {

/// Longest message between master and member. The longest ones hold the dense weights with the optimizer's state
/// (`save_dense`), at most `blob::max_bytes` (`check_messages`), or predictions of a trainer's test rows, 8 bytes a row
/// (`evaluation`).
constexpr std::uint64_t member_message_bytes_max = msg::blob::max_bytes + (std::uint64_t{1} << 20);

/// Longest message between master and client (`troupe status`, `stop`).
constexpr std::uint64_t client_message_bytes_max = std::uint64_t{64} << 20;

/// Checks the length of each message of CAF's network protocol (BASP) before CAF, which allocates whatever a header
/// says, up to 4 GiB. Follows one direction of a connection from its start: headers, each followed by its payload.
/// Thread: one.
class basp_guard {
 public:
  explicit basp_guard(std::uint64_t payload_bytes_max) : payload_bytes_max_(payload_bytes_max) {}

  /// Checks the next bytes. Returns the length of a payload over the limit if a header announces one; then these bytes
  /// must not reach CAF, and the guard must not be used again.
  std::optional<std::uint64_t> excess(std::span<const std::byte> bytes);

  std::uint64_t payload_bytes_max() const { return payload_bytes_max_; }

 private:
  static constexpr std::size_t header_bytes = 32;

  const std::uint64_t payload_bytes_max_;
  std::array<std::byte, header_bytes> header_{};
  std::size_t header_filled_ = 0;
  std::uint64_t payload_left_ = 0;
};

class control_tunnel : public std::enable_shared_from_this<control_tunnel> {
 public:
  /// Maximum bytes of a frame.
  static constexpr std::size_t portion = std::size_t{64} << 10;

  /// Limits of a tunnel's link.
  static links::link_limits limits(std::chrono::milliseconds dead_after) {
    return {.frame_bytes_max = portion, .dead_after = dead_after};
  }

  /// Requires: the link's thread runs `io`.
  control_tunnel(boost::asio::io_context& io, links::link_ptr wire, std::uint64_t message_bytes_max);

  /// Creates the socket pair and returns CAF's end. Requires: called once.
  result<int> open();

  /// Starts. Calls `on_end` once, on the link's thread, when the link has ended: with the reason, or null after a
  /// goodbye. Not called after `close`.
  void start(std::function<void(const fault* why)> on_end);

  /// Closes link and socket. Thread: any.
  void close();

  const links::link_ptr& wire() const { return wire_; }

 private:
  void read_from_caf();
  void received(links::received_frame&& frame);
  void write_to_caf();
  void ended(const fault* why);
  void break_off(const std::string& why);

  boost::asio::io_context& io_;
  links::link_ptr wire_;
  boost::asio::local::stream_protocol::socket socket_;
  boost::asio::steady_timer pause_;
  std::function<void(const fault*)> on_end_;
  basp_guard from_caf_;
  basp_guard to_caf_;
  std::deque<links::received_frame> for_caf_;
  std::uint64_t bytes_for_caf_ = 0;
  bool writing_ = false;
};

}  // namespace troupe::nodes
