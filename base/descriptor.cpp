#include "base/descriptor.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace troupe {

int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(descriptor, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

std::size_t descriptors_left(std::size_t most) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return most;
  std::size_t left = 0;
  for (rlim_t number = 0; number < limit.rlim_cur && left < most; ++number)
    if (::fcntl(static_cast<int>(number), F_GETFD) < 0) ++left;
  return left;
}

result<descriptor> descriptor::open(const std::string& path, int flags) {
  // Otherwise open(2) on a FIFO would block until it has a reader, and signals would not interrupt it.
  const int unblocked = (flags & O_ACCMODE) == O_WRONLY ? O_NONBLOCK : 0;
  const int number = ::open(path.c_str(), flags | unblocked | O_CLOEXEC, 0666);
  if (number < 0) return bad_input(errno == ENXIO ? "is a FIFO without a reader" : std::strerror(errno));
  if (unblocked != 0) ::fcntl(number, F_SETFL, ::fcntl(number, F_GETFL) & ~O_NONBLOCK);
  return descriptor(number);
}

descriptor::~descriptor() {
  if (number_ >= 0) ::close(number_);
}

}  // namespace troupe
