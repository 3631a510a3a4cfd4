#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "cluster/links/transport.hpp"

namespace troupe::links {

namespace {

class plain final : public transport {
 public:
  explicit plain(int socket) : socket_(socket) {}

  io_outcome open() override { return {}; }

  io_outcome read(std::span<std::byte> into) override {
    for (;;) {
      const ssize_t got = ::recv(socket_, into.data(), into.size(), MSG_DONTWAIT);
      if (got > 0) {
        const auto bytes = static_cast<std::size_t>(got);
        bytes_in_ += bytes;
        return {.bytes = bytes, .drained = bytes < into.size(), .why = {}};
      }
      if (got == 0) return {.state = io_state::ended, .why = {}};
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return {.state = io_state::wants_read, .why = {}};
      return failed_io(errno);
    }
  }

  io_outcome write(std::span<const iovec> parts) override {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = parts.size();
    for (;;) {
      const ssize_t sent = ::sendmsg(socket_, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent >= 0) {
        std::size_t all = 0;
        for (const iovec& part : parts) all += part.iov_len;
        const auto bytes = static_cast<std::size_t>(sent);
        return {.state = bytes == all ? io_state::done : io_state::wants_write, .bytes = bytes, .why = {}};
      }
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return {.state = io_state::wants_write, .why = {}};
      return failed_io(errno);
    }
  }

  const channel& over() const override { return channel_; }
  std::uint64_t bytes_in() const override { return bytes_in_; }
  bool one_at_a_time() const override { return false; }
  bool protects_bytes() const override { return false; }

  // Limit of one write: while the other side drains the kernel's buffer, a single write could continue for long.
  std::size_t write_budget() const override { return std::size_t{8} << 20; }

 private:
  int socket_;
  const channel channel_;
  std::uint64_t bytes_in_ = 0;
};

}  // namespace

io_outcome failed_io(int error_number) {
  io_outcome outcome{.state = io_state::failed, .why = {fault_kind::lost, {}}};
  switch (error_number) {
    case ECONNRESET:
    case EPIPE:
      outcome.why.message = "its connection was reset";
      break;
    case ETIMEDOUT:
      outcome.why.message = "its connection timed out";
      break;
    default:
      outcome.why.message = std::string("its connection failed: ") + std::strerror(error_number);
  }
  return outcome;
}

std::unique_ptr<transport> plain_transport(int socket) { return std::make_unique<plain>(socket); }

}  // namespace troupe::links
