#include "cluster/nodes/control_tunnel.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <caf/io/basp/header.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

namespace troupe::nodes {

namespace {

constexpr std::uint8_t bytes_kind = links::link::first_user_kind;

/// Most bytes queued in either direction; beyond that, reading pauses.
constexpr std::uint64_t queued_bytes_max = std::uint64_t{4} << 20;

}  // namespace

std::optional<std::uint64_t> basp_guard::excess(std::span<const std::byte> bytes) {
  static_assert(header_bytes == caf::io::basp::header_size, "this release of CAF has other headers");
  while (!bytes.empty()) {
    if (payload_left_ > 0) {
      const std::uint64_t skipped = std::min<std::uint64_t>(payload_left_, bytes.size());
      payload_left_ -= skipped;
      bytes = bytes.subspan(skipped);
      continue;
    }
    const std::size_t taken = std::min(bytes.size(), header_bytes - header_filled_);
    std::ranges::copy(bytes.first(taken), header_.begin() + static_cast<std::ptrdiff_t>(header_filled_));
    bytes = bytes.subspan(taken);
    header_filled_ += taken;
    if (header_filled_ < header_bytes) continue;
    header_filled_ = 0;
    // Operation, two bytes of padding, flags; then the payload's length: 32 bits, big-endian.
    for (std::size_t at = 4; at < 8; ++at)
      payload_left_ = payload_left_ << 8 | std::to_integer<std::uint64_t>(header_[at]);
    if (payload_left_ > payload_bytes_max_) return payload_left_;
  }
  return std::nullopt;
}

control_tunnel::control_tunnel(boost::asio::io_context& io, links::link_ptr wire, std::uint64_t message_bytes_max)
    : io_(io),
      wire_(std::move(wire)),
      socket_(io),
      pause_(io),
      from_caf_(message_bytes_max),
      to_caf_(message_bytes_max) {}

result<int> control_tunnel::open() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()) != 0)
    return run_fault("a socket for its messages: {}", std::strerror(errno));
  socket_.assign(boost::asio::local::stream_protocol(), ends[0]);
  return ends[1];
}

void control_tunnel::start(std::function<void(const fault*)> on_end) {
  on_end_ = std::move(on_end);
  wire_->start(
      {.on_frame = [me = shared_from_this()](links::received_frame&& frame) { me->received(std::move(frame)); },
       .on_end = [me = shared_from_this()](const fault* why) { me->ended(why); }});
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
  if (wire_->queued_bytes() > queued_bytes_max) {
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
        if (error == boost::asio::error::operation_aborted) return me->wire_->close();
        // CAF closes its end when the peer sends bytes that are not messages of CAF's protocol, and when CAF itself
        // ends.
        if (error) return me->break_off("what it sent is not a message");
        const std::byte* from = bytes.get();
        if (const auto length = me->from_caf_.excess({from, size}))
          return me->break_off(
              fmt::format("a message of {} bytes was to be sent to it, the limit is {}; a smaller network (--hidden, "
                          "--layers) or fewer rows to evaluate make it shorter",
                          *length, me->from_caf_.payload_bytes_max()));
        me->wire_->send(bytes_kind, {{std::shared_ptr<const void>(bytes, from), from, size}});
        me->read_from_caf();
      });
}

void control_tunnel::received(links::received_frame&& frame) {
  if (const auto length = to_caf_.excess({frame.memory.get(), frame.size}))
    return break_off(
        fmt::format("it announced a message of {} bytes, the limit is {}", *length, to_caf_.payload_bytes_max()));
  bytes_for_caf_ += frame.size;
  for_caf_.push_back(std::move(frame));
  write_to_caf();
  if (bytes_for_caf_ > queued_bytes_max) wire_->pause_reading(true);
}

void control_tunnel::break_off(const std::string& why) {
  wire_->close();
  const fault fault{fault_kind::lost, why};
  ended(&fault);
}

void control_tunnel::write_to_caf() {
  if (writing_ || for_caf_.empty()) return;
  writing_ = true;
  const links::received_frame& next = for_caf_.front();
  boost::asio::async_write(socket_, boost::asio::buffer(next.memory.get(), next.size),
                           [me = shared_from_this()](const boost::system::error_code& error, std::size_t) {
                             me->writing_ = false;
                             me->bytes_for_caf_ -= me->for_caf_.front().size;
                             me->for_caf_.pop_front();
                             if (me->bytes_for_caf_ <= queued_bytes_max) me->wire_->pause_reading(false);
                             if (!error) me->write_to_caf();
                           });
}

void control_tunnel::ended(const fault* why) {
  if (const auto report = std::exchange(on_end_, nullptr)) report(why);
  // Closed last, so that CAF reports the lost node after our own report.
  boost::system::error_code ignored;
  socket_.close(ignored);
}

}  // namespace troupe::nodes
