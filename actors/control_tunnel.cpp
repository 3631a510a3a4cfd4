#include "actors/control_tunnel.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <utility>
#include <vector>

namespace troupe {

namespace {

constexpr std::uint8_t bytes_kind = link::first_user_kind;

}  // namespace

control_tunnel::control_tunnel(boost::asio::io_context& io, link_ptr wire)
    : io_(io), wire_(std::move(wire)), socket_(io), pause_(io) {}

int control_tunnel::open() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0) return -1;
  socket_.assign(boost::asio::local::stream_protocol(), ends[0]);
  return ends[1];
}

void control_tunnel::start(std::function<void(const link_fault*)> on_end) {
  on_end_ = std::move(on_end);
  wire_->start({.on_frame =
                    [me = shared_from_this()](received_frame&& frame) {
                      me->for_caf_.push_back(std::move(frame));
                      me->write_to_caf();
                    },
                .on_end = [me = shared_from_this()](const link_fault* why) { me->ended(why); }});
  boost::asio::post(io_, [me = shared_from_this()] { me->read_from_caf(); });
}

void control_tunnel::close() {
  wire_->close();
  boost::asio::post(io_, [me = shared_from_this()] {
    boost::system::error_code ignored;
    me->socket_.close(ignored);
    me->pause_.cancel();
  });
}

void control_tunnel::read_from_caf() {
  // CAF's buffers have no limit, so let what waits, wait there.
  constexpr std::uint64_t enough = std::uint64_t{4} << 20;
  if (wire_->queued_bytes() > enough) {
    pause_.expires_after(std::chrono::milliseconds(5));
    pause_.async_wait([me = shared_from_this()](const boost::system::error_code& cancelled) {
      if (!cancelled) me->read_from_caf();
    });
    return;
  }
  auto bytes = std::make_shared_for_overwrite<std::byte[]>(portion);
  std::byte* data = bytes.get();
  socket_.async_read_some(
      boost::asio::buffer(data, portion),
      [me = shared_from_this(), bytes = std::move(bytes)](const boost::system::error_code& error, std::size_t size) {
        if (error) return me->closed_by_caf(error);
        const std::byte* from = bytes.get();
        me->wire_->send(bytes_kind, {{std::shared_ptr<const void>(bytes, from), from, size}});
        me->read_from_caf();
      });
}

/// CAF closes its end when the other side sends what is none of its messages, and when it ends itself.
void control_tunnel::closed_by_caf(const boost::system::error_code& error) {
  wire_->close();
  if (error == boost::asio::error::operation_aborted) return;
  const link_fault why{link_errc::lost, "what came from it was no message"};
  if (const auto tell = std::exchange(on_end_, nullptr)) tell(&why);
}

void control_tunnel::write_to_caf() {
  if (writing_ || for_caf_.empty()) return;
  writing_ = true;
  const received_frame& next = for_caf_.front();
  boost::asio::async_write(socket_, boost::asio::buffer(next.memory.get(), next.size),
                           [me = shared_from_this()](const boost::system::error_code& error, std::size_t) {
                             me->writing_ = false;
                             me->for_caf_.pop_front();
                             if (!error) me->write_to_caf();
                           });
}

void control_tunnel::ended(const link_fault* why) {
  if (const auto tell = std::exchange(on_end_, nullptr)) tell(why);
  // Only now: CAF's own word about the lost node comes after ours.
  boost::system::error_code ignored;
  socket_.close(ignored);
}

}  // namespace troupe
