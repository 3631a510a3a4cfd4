// Carries the bytes of CAF's network layer over a link, in frames of at most 64 KiB, so that the link's signs of life
// get through between them.

#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>

#include "links/link.hpp"

namespace troupe {

class control_tunnel : public std::enable_shared_from_this<control_tunnel> {
 public:
  /// `io` is run by the link's thread.
  control_tunnel(boost::asio::io_context& io, link_ptr wire);

  /// Makes the pair of sockets and returns CAF's; -1 if the system has none left. Call once.
  int open();

  /// Begins. `on_end` is called once on the link's thread: when the link has ended, with the reason, or null after a
  /// goodbye. Not called after `close`.
  void start(std::function<void(const link_fault* why)> on_end);

  /// Ends link and socket. From any thread.
  void close();

  const link_ptr& wire() const { return wire_; }

 private:
  static constexpr std::size_t portion = std::size_t{64} << 10;

  void read_from_caf();
  void write_to_caf();
  void closed_by_caf(const boost::system::error_code& error);
  void ended(const link_fault* why);

  boost::asio::io_context& io_;
  link_ptr wire_;
  boost::asio::local::stream_protocol::socket socket_;
  boost::asio::steady_timer pause_;
  std::function<void(const link_fault*)> on_end_;
  std::deque<received_frame> for_caf_;
  bool writing_ = false;
};

}  // namespace troupe
