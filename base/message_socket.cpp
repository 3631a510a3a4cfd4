#include "base/message_socket.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/assert.hpp"

namespace troupe {

namespace {

/// The control part of a message that carries one descriptor.
struct attachment {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> bytes{};
};

}  // namespace

result<std::pair<message_socket, message_socket>> message_socket::make_pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) return run_fault(std::strerror(errno));
  return std::pair(message_socket(descriptor::adopt(ends[0])), message_socket(descriptor::adopt(ends[1])));
}

bool message_socket::send(const std::string& text, int attached) const {
  TROUPE_ASSERT(!text.empty() && text.size() <= bytes_max);
  iovec piece{const_cast<char*>(text.data()), text.size()};
  msghdr what{};
  what.msg_iov = &piece;
  what.msg_iovlen = 1;
  attachment control;
  if (attached >= 0) {
    what.msg_control = control.bytes.data();
    what.msg_controllen = control.bytes.size();
    cmsghdr* head = CMSG_FIRSTHDR(&what);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &attached, sizeof(int));
  }
  ssize_t sent = -1;
  while ((sent = ::sendmsg(end_.number(), &what, MSG_NOSIGNAL)) < 0 && errno == EINTR) continue;
  return sent == static_cast<ssize_t>(text.size());
}

std::optional<message_socket::message> message_socket::receive(std::chrono::milliseconds timeout) const {
  pollfd waits{end_.number(), POLLIN, 0};
  if (::poll(&waits, 1, static_cast<int>(timeout.count())) <= 0) return std::nullopt;
  std::string text(bytes_max, '\0');
  iovec piece{text.data(), text.size()};
  attachment control;
  msghdr what{};
  what.msg_iov = &piece;
  what.msg_iovlen = 1;
  what.msg_control = control.bytes.data();
  what.msg_controllen = control.bytes.size();
  const ssize_t size = ::recvmsg(end_.number(), &what, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size <= 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(size));
  message got{std::move(text), std::nullopt};
  const cmsghdr* head = CMSG_FIRSTHDR(&what);
  if (head != nullptr && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
    int number = -1;
    std::memcpy(&number, CMSG_DATA(head), sizeof(int));
    got.attached = descriptor::adopt(number);
  }
  return got;
}

}  // namespace troupe
