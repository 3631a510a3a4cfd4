#include "cluster/links/handshake.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

namespace troupe::links {

namespace {

// Limit of bytes that an acceptor discards after a refusal, so that its reason arrives.
constexpr std::size_t linger_bytes_max = std::size_t{128} << 10;

endpoint address_or_none(const asio::ip::tcp::endpoint& address, const boost::system::error_code& error) {
  return error ? endpoint{} : to_endpoint(address);
}

}  // namespace

handshake::handshake(tcp_socket socket, const credentials& mine, task what)
    : socket_(std::move(socket)), mine_(mine), deadline_(socket_.get_executor()), task_(std::move(what)) {
  prepare(socket_);
  const int descriptor = socket_.native_handle();
  if (!mine_.tls)
    wire_ = plain_transport(descriptor);
  else if (!mine_.plain_too || task_.side == link_side::connector)
    wire_ = tls_transport(descriptor, mine_, task_.side);
  boost::system::error_code error;
  const auto local = socket_.local_endpoint(error);
  local_ = address_or_none(local, error);
  const auto remote = socket_.remote_endpoint(error);
  remote_ = address_or_none(remote, error);
}

void handshake::start() {
  deadline_.expires_at(task_.deadline);
  deadline_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error || self->over_) return;
    if (!self->lingers_)
      self->give_up("did not finish the handshake within " + seconds_text(self->task_.time));
    else
      self->release();
  });
  advance();
}

/// Chooses plain TCP or TLS by the first byte; false if none has arrived yet.
bool handshake::choose_wire() {
  constexpr std::byte tls_handshake{0x16};
  std::byte first{};
  const int descriptor = socket_.native_handle();
  const ssize_t got = ::recv(descriptor, &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
    wait(tcp_socket::wait_read);
    return false;
  }
  const bool by_tls = got == 1 && first == tls_handshake;
  wire_ = by_tls ? tls_transport(descriptor, mine_, task_.side) : plain_transport(descriptor);
  return true;
}

void handshake::advance() {
  while (!over_) {
    if (lingers_) return linger();
    if (!wire_ && !choose_wire()) return;
    if (!open_) {
      io_outcome outcome = wire_->open();
      if (outcome.state != io_state::done) {
        if (!wait_for(outcome.state)) on_socket_ended(std::move(outcome));
        return;
      }
      open_ = true;
      take(task_.role->begin(wire_->over()));
    }
    if (!write_out()) return;
    if (step_.outcome) return finish();
    if (!read_in()) return;
  }
}

bool handshake::write_out() {
  while (sent_ < step_.send.size()) {
    const iovec rest{step_.send.data() + sent_, step_.send.size() - sent_};
    io_outcome outcome = wire_->write({&rest, 1});
    sent_ += outcome.bytes;
    if (outcome.state == io_state::done) continue;
    if (wait_for(outcome.state)) return false;
    // The other side's reason for closing may be readable.
    std::array<std::byte, 1> word{};
    if (io_outcome last = wire_->read(word); last.state == io_state::failed) outcome = std::move(last);
    on_socket_ended(std::move(outcome));
    return false;
  }
  return true;
}

bool handshake::read_in() {
  while (in_.size() < step_.want) {
    const std::size_t have = in_.size();
    in_.resize(step_.want);
    io_outcome outcome = wire_->read(std::span(in_).subspan(have));
    in_.resize(have + outcome.bytes);
    if (outcome.state != io_state::done) {
      if (!wait_for(outcome.state)) on_socket_ended(std::move(outcome));
      return false;
    }
    if (auto wrong = task_.role->glance(in_)) {
      fail(std::move(*wrong));
      return false;
    }
  }
  take(task_.role->feed(in_));
  return true;
}

void handshake::take(handshake_step step) {
  step_ = std::move(step);
  sent_ = 0;
  in_ = {};
}

bool handshake::wait_for(io_state state) {
  if (state == io_state::wants_read) wait(tcp_socket::wait_read);
  if (state == io_state::wants_write) wait(tcp_socket::wait_write);
  return state == io_state::wants_read || state == io_state::wants_write;
}

void handshake::wait(tcp_socket::wait_type what) {
  socket_.async_wait(what, [self = shared_from_this()](const boost::system::error_code&) { self->advance(); });
}

void handshake::on_socket_ended(io_outcome outcome) {
  if (outcome.state == io_state::ended) {
    const bool silent = wire_->bytes_in() == 0;
    // The peer wanted nothing: it tried several addresses, or only probed whether the port is open.
    if (silent && task_.side == link_side::acceptor) return cancel();
    const bool may_use_tls = silent && task_.side == link_side::connector;
    outcome.why = {fault_kind::lost, silent ? "closed the connection without a word"
                                            : "closed the connection before the handshake was over"};
    if (may_use_tls) outcome.why.message += "; perhaps it uses TLS, or is busy";
  }
  // A reset connection loses received bytes, among them the beginning of TLS.
  const bool unheard = outcome.state == io_state::failed && wire_->bytes_in() == 0 && !wire_->protects_bytes();
  if (unheard && task_.side == link_side::acceptor) outcome.why.message += "; perhaps it uses TLS";
  // For a connector a closed connection is worth a retry.
  if (outcome.why.kind == fault_kind::lost && task_.side == link_side::connector)
    outcome.why.kind = fault_kind::unreachable;
  fail(std::move(outcome.why));
}

void handshake::finish() {
  if (!*step_.outcome) return fail(std::move(step_.outcome->error()));
  const auto done = std::move(task_.done);
  hello peer = std::move(**step_.outcome);
  over_ = true;
  deadline_.cancel();
  done(greeted_connection{std::move(socket_), std::move(wire_), std::move(peer), local_, remote_});
}

void handshake::give_up(std::string why) {
  if (over_) return;
  const auto code = task_.side == link_side::connector ? fault_kind::unreachable : fault_kind::lost;
  if (!lingers_) fail({code, std::move(why)});
  release();
}

void handshake::fail(fault why) {
  why.message = task_.name + ": " + why.message;
  const auto done = std::move(task_.done);
  if (task_.side == link_side::acceptor) {
    // Closing a socket with unread bytes resets the connection, and the sent reason would be lost.
    lingers_ = true;
    ::shutdown(socket_.native_handle(), SHUT_WR);
    linger();
  } else {
    release();
  }
  if (done) done(tl::unexpected(std::move(why)));
}

void handshake::linger() {
  std::array<std::byte, 4096> scratch;
  while (lingered_bytes_ < linger_bytes_max) {
    const ssize_t got = ::recv(socket_.native_handle(), scratch.data(), scratch.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return wait(tcp_socket::wait_read);
    if (got <= 0) break;
    lingered_bytes_ += static_cast<std::size_t>(got);
  }
  release();
}

void handshake::cancel() {
  if (!over_) release();
}

void handshake::release() {
  over_ = true;
  task_.done = nullptr;  // keeps the role, which may be a caller of this function
  deadline_.cancel();
  boost::system::error_code ignored;
  socket_.close(ignored);
}

}  // namespace troupe::links
