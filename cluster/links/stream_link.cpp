#include "cluster/links/stream_link.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

#include "base/digest.hpp"
#include "cluster/links/dead_after.hpp"

namespace troupe::links {

namespace {

// Limit of bytes that one pass reads before timers and other links run.
constexpr std::size_t read_budget = std::size_t{8} << 20;
constexpr std::size_t parts_max = 64;

/// Replaces `where_needed` by a decision for this connection.
link_limits decided(link_limits limits, const greeted_connection& connection) {
  if (limits.digests != digest_use::where_needed) return limits;
  const bool safe = is_loopback(connection.remote.host) || connection.wire->protects_bytes();
  limits.digests = safe ? digest_use::never : digest_use::always;
  return limits;
}

}  // namespace

stream_link::stream_link(asio::io_context& io, greeted_connection&& connection, const link_limits& limits)
    : io_(io),
      limits_(decided(limits, connection)),
      rest_(rest_between_pings(limits.dead_after, take_dead_after(connection.peer))),
      peer_(std::move(connection.peer)),
      peer_certificate_(connection.wire->over().peer_certificate),
      local_(std::move(connection.local)),
      remote_(std::move(connection.remote)),
      siblings_(links_of(io)),
      socket_(std::move(connection.socket)),
      wire_(std::move(connection.wire)),
      last_sent_(clock::now()),
      timer_(io),
      reader_(limits_) {
  give_up_after(*socket_, limits.dead_after);
  const std::scoped_lock lock(siblings_->mutex);
  siblings_->all.insert(this);
}

stream_link::~stream_link() {
  // The mutex prevents the destruction of the io_context while its services are used here.
  const std::scoped_lock lock(siblings_->mutex);
  siblings_->all.erase(this);
  timer_.reset();
  socket_.reset();
}

std::shared_ptr<void> stream_link::abandon() {
  const std::scoped_lock lock(mutex_);
  phase_ = phase::ended;
  drop_queue();
  timer_.reset();
  socket_.reset();
  return std::make_shared<callbacks>(std::move(callbacks_));
}

template <class Function>
void stream_link::post(Function what) {
  asio::post(io_, [self = shared_from_this(), what] { what(*self); });
}

void stream_link::start(callbacks what) {
  const std::scoped_lock lock(mutex_);
  if (phase_ != phase::fresh) return;
  phase_ = phase::running;
  callbacks_ = std::move(what);
  post([](stream_link& self) { self.begin(); });
}

void stream_link::begin() {
  if (phase_ != phase::running || end_by_own_fault()) return;
  last_heard_ = clock::now();
  tick();
  read_some();
}

// Sending.

void stream_link::send(std::uint8_t kind, std::vector<piece> body, bool more_follows) {
  std::uint64_t size = 0;
  for (const piece& one : body) size += one.size;
  const std::uint64_t digest = limits_.digests == digest_use::always ? digest_of(body) : 0;
  const std::scoped_lock lock(mutex_);
  if (phase_ >= phase::closing || cannot_write_) return;
  if (size > limits_.frame_bytes_max) {
    cannot_write_ = true;
    own_fault_ = {fault_kind::lost, fmt::format("a frame of {} bytes was to be sent to it, the limit is {}", size,
                                                limits_.frame_bytes_max)};
    return post([](stream_link& self) { self.end_by_own_fault(); });
  }
  push({kind, size, digest}, std::move(body), more_follows);
}

void stream_link::flush() {
  const std::scoped_lock lock(mutex_);
  if (phase_ == phase::ended || cannot_write_ || !std::exchange(held_, false)) return;
  write_queue();
}

void stream_link::keep_alive() {
  const std::scoped_lock lock(mutex_);
  if (phase_ != phase::running || cannot_write_) return;
  held_ = false;  // the next frame may take long: its sender may run a user's code
  queue_.empty() ? ping_if_due(clock::now()) : write_queue();
}

void stream_link::push(const frame_header& header, std::vector<piece>&& body, bool more_follows) {
  // Else the queue continues when the socket is writable.
  const bool first = queue_.empty() || held_;
  const auto size = frame_header_bytes + static_cast<std::size_t>(header.length);
  queue_.push_back({image_of(header), std::move(body), size, 0});
  queued_bytes_ += size;
  held_ = first && more_follows;
  if (first && !more_follows) write_queue();
}

void stream_link::write_queue() {
  std::array<iovec, parts_max> parts;
  for (std::size_t budget = wire_->write_budget(); !queue_.empty() && budget > 0;) {
    const std::size_t count = gather(parts, budget);
    const io_outcome outcome = wire_->write({parts.data(), count});
    if (outcome.bytes > 0) last_sent_ = clock::now();
    consume(outcome.bytes);
    budget -= outcome.bytes;
    write_wants_read_ = outcome.state == io_state::wants_read;
    if (write_wants_read_) return;
    if (outcome.state == io_state::failed) {
      // The reading side reports the failure, after what the other side sent before, perhaps its goodbye.
      cannot_write_ = true;
      return drop_queue();
    }
    if (outcome.state == io_state::wants_write) break;
  }
  queue_.empty() ? shut_when_sent() : wait_writable();
}

std::size_t stream_link::gather(std::span<iovec> parts, std::size_t budget) const {
  std::size_t count = 0;
  const auto add = [&](const std::byte* data, std::size_t size, std::size_t& skip) {
    const std::size_t skipped = std::min(skip, size);
    skip -= skipped;
    const std::size_t taken = std::min(size - skipped, budget);
    if (taken == 0) return;
    parts[count++] = {const_cast<std::byte*>(data + skipped), taken};
    budget -= taken;
  };
  for (const outgoing& one : queue_) {
    std::size_t skip = one.sent;
    if (count == parts.size() || budget == 0) break;
    add(one.header.data(), one.header.size(), skip);
    for (const piece& part : one.body) {
      if (count == parts.size() || budget == 0) break;
      add(part.data, part.size, skip);
    }
  }
  return count;
}

void stream_link::consume(std::size_t bytes) {
  queued_bytes_ -= bytes;
  while (bytes > 0) {
    outgoing& first = queue_.front();
    const std::size_t part = std::min(bytes, first.size - first.sent);
    first.sent += part;
    bytes -= part;
    if (first.sent == first.size) queue_.pop_front();
  }
}

void stream_link::drop_queue() {
  queue_.clear();
  queued_bytes_ = 0;
}

void stream_link::wait_writable() {
  if (std::exchange(write_is_due_, true)) return;
  if (io_.get_executor().running_in_this_thread()) return arm_write();
  post([](stream_link& self) { self.arm_write(); });
}

void stream_link::arm_write() {
  if (phase_ == phase::ended) return;
  socket_->async_wait(tcp_socket::wait_write,
                      [self = shared_from_this()](const boost::system::error_code&) { self->on_writable(); });
}

void stream_link::on_writable() {
  {
    const std::scoped_lock lock(mutex_);
    write_is_due_ = false;
    if (phase_ == phase::ended || cannot_write_) return;
    write_queue();
  }
  if (std::exchange(read_wants_write_, false)) on_readable();
}

// Ending.

void stream_link::close() {
  const std::scoped_lock lock(mutex_);
  if (phase_ >= phase::closing) return;
  phase_ = phase::closing;
  if (!cannot_write_) push({goodbye_kind, 0, 0}, {}, false);
  post([](stream_link& self) { self.begin_closing(); });
}

void stream_link::begin_closing() {
  if (phase_ == phase::ended) return;
  callbacks_ = {};
  wait_tick(clock::now() + limits_.dead_after);
  if (!read_is_due_) discard_some();
}

void stream_link::shut_when_sent() {
  // Closing a socket with unread bytes drops its unsent ones. Therefore the link shuts down its sending side, and reads
  // until the other side has closed.
  if (phase_ == phase::closing) ::shutdown(socket_->native_handle(), SHUT_WR);
}

void stream_link::end(const fault* why) {
  callbacks last;
  {
    const std::scoped_lock lock(mutex_);
    if (phase_ == phase::ended) return;
    if (phase_ == phase::running) last = std::move(callbacks_);
    phase_ = phase::ended;
    drop_queue();
    socket_.reset();
  }
  callbacks_ = {};
  timer_.reset();
  if (last.on_end) last.on_end(why);
}

bool stream_link::end_by_own_fault() {
  std::optional<fault> why;
  {
    const std::scoped_lock lock(mutex_);
    if (phase_ == phase::running) why = std::exchange(own_fault_, std::nullopt);
  }
  if (why) end(&*why);
  return why.has_value();
}

// Reading.

io_outcome stream_link::read_wire(std::span<std::byte> into) {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (wire_->one_at_a_time()) lock.lock();
  io_outcome outcome = wire_->read(into);
  if (wire_->bytes_in() != bytes_heard_) {
    bytes_heard_ = wire_->bytes_in();
    last_heard_ = clock::now();
  }
  return outcome;
}

void stream_link::pause_reading(bool pause) {
  if (std::exchange(is_paused_, pause) == pause || pause) return;
  last_heard_ = clock::now();
  // Else the pending call reads.
  if (phase_ != phase::running || read_is_due_ || read_wants_write_) return;
  read_is_due_ = true;
  post([](stream_link& self) { self.on_readable(); });
}

void stream_link::read_some() {
  std::size_t budget = read_budget;
  for (;;) {
    io_outcome got = read_wire(reader_.space());
    switch (got.state) {
      case io_state::done:
        if (!take(got.bytes) || is_paused_) return;
        if (got.drained) return wait_readable();
        if (got.bytes >= budget) {
          read_is_due_ = true;
          return post([](stream_link& self) { self.on_readable(); });
        }
        budget -= got.bytes;
        break;
      case io_state::wants_read:
        return wait_readable();
      case io_state::wants_write: {
        read_wants_write_ = true;
        const std::scoped_lock lock(mutex_);
        return wait_writable();
      }
      case io_state::ended:
        got.why = {fault_kind::lost, "its connection was closed"};
        return end(&got.why);
      case io_state::failed:
        got.why.kind = fault_kind::lost;
        return end(&got.why);
    }
  }
}

bool stream_link::take(std::size_t count) {
  reader_.commit(count);
  for (;;) {
    auto next = reader_.next();
    if (!next) {
      const fault why{fault_kind::lost, std::move(next.error().message)};
      end(&why);
      return false;
    }
    if (!*next) return true;
    received_frame& frame = **next;
    if (frame.kind == goodbye_kind) {
      end(nullptr);
      return false;
    }
    if (frame.kind == ping_kind) continue;
    if (callbacks_.on_frame) callbacks_.on_frame(std::move(frame));
    if (phase_ != phase::running) return false;  // the callback may have closed the link
  }
}

void stream_link::wait_readable() {
  read_is_due_ = true;
  socket_->async_wait(tcp_socket::wait_read,
                      [self = shared_from_this()](const boost::system::error_code&) { self->on_readable(); });
}

void stream_link::on_readable() {
  read_is_due_ = false;
  if (phase_ == phase::closing) discard_some();
  if (phase_ == phase::running && !is_paused_) read_some();
  const std::scoped_lock lock(mutex_);
  if (write_wants_read_ && phase_ != phase::ended && !cannot_write_) write_queue();
}

void stream_link::discard_some() {
  std::array<std::byte, std::size_t{16} << 10> scratch;
  constexpr int passes = 64;
  for (int pass = 0; pass < passes; ++pass) {
    const ssize_t got = ::recv(socket_->native_handle(), scratch.data(), scratch.size(), MSG_DONTWAIT);
    if (got > 0 || (got < 0 && errno == EINTR)) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    return end(nullptr);
  }
  wait_readable();
}

// Detecting the other side's death.

void stream_link::wait_tick(clock::time_point when) {
  planned_tick_ = when;
  timer_->expires_at(when);
  timer_->async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error) self->tick();
  });
}

void stream_link::tick() {
  const auto now = clock::now();
  if (phase_ == phase::ended || now < planned_tick_) return;  // the tick was postponed
  if (phase_ == phase::closing) return end(nullptr);
  if (is_paused_) last_heard_ = now;
  const auto fifth = std::chrono::duration_cast<clock::duration>(limits_.dead_after) / 5;
  // A late tick means that this process was stopped, and perhaps also the other side: the timeout restarts.
  if (now - planned_tick_ > fifth) last_heard_ = now;
  if (now - last_heard_ >= 4 * fifth) {
    if (!something_to_read()) {  // bytes that have arrived are read first
      const auto silence = std::chrono::duration_cast<std::chrono::milliseconds>(now - last_heard_);
      const fault why{fault_kind::lost, "no byte came for " + seconds_text(silence)};
      return end(&why);
    }
    last_heard_ = now;
  }
  auto next_ping = now + rest_;
  {
    const std::scoped_lock lock(mutex_);
    if (phase_ == phase::running && queue_.empty() && !cannot_write_) {
      ping_if_due(now);
      if (queue_.empty()) next_ping = last_sent_ + rest_;
    }
  }
  constexpr std::chrono::milliseconds shortest{1};
  wait_tick(std::max(now + shortest, std::min(next_ping, last_heard_ + 4 * fifth)));
}

bool stream_link::something_to_read() {
  std::byte first{};
  const ssize_t got = ::recv(socket_->native_handle(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
  return got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

}  // namespace troupe::links
