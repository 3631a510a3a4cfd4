#include "cluster/links/private_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/descriptor.hpp"
#include "base/input_files.hpp"

namespace troupe::links {

result<std::string> read_private_file(const std::string& what, const std::string& path, std::size_t bytes_max) {
  const auto wrong = [&](const std::string& why) {
    return failure(fault_kind::input, fmt::format("{} {}: {}", what, path, why));
  };
  // Without O_NONBLOCK opening a named pipe would block until it has a writer.
  const auto file = descriptor::adopt(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.number(), &status) != 0) return wrong(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return wrong("must be a regular file");
  remember_input(path, "a private file that this command reads");
  constexpr mode_t others = S_IRGRP | S_IROTH | S_IWGRP | S_IWOTH;
  if ((status.st_mode & others) != 0)
    return wrong(fmt::format("others than its owner may read or write it (mode {:03o}): `chmod 600 {}`",
                             status.st_mode & 0777U, path));
  std::string text(bytes_max + 1, '\0');
  std::size_t length = 0;
  while (length < text.size()) {
    const ssize_t got = ::read(file.number(), text.data() + length, text.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return wrong(std::strerror(errno));
    if (got == 0) break;
    length += static_cast<std::size_t>(got);
  }
  text.resize(length);
  return text;
}

}  // namespace troupe::links
