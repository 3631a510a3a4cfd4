#include "links/private_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/input_files.hpp"

namespace troupe::links {

namespace {

class private_descriptor {
 public:
  // Without O_NONBLOCK opening a named pipe would block until it has a writer.
  explicit private_descriptor(const std::string& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~private_descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  private_descriptor(const private_descriptor&) = delete;
  private_descriptor& operator=(const private_descriptor&) = delete;

  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

}  // namespace

result<std::string> read_private_file(const std::string& what, const std::string& path, std::size_t bytes_max) {
  const auto wrong = [&](const std::string& why) {
    return failure(fault_kind::input, fmt::format("{} {}: {}", what, path, why));
  };
  const private_descriptor file(path);
  struct stat status {};
  if (file.descriptor() < 0 || ::fstat(file.descriptor(), &status) != 0) return wrong(std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return wrong("must be a regular file");
  remember_input(path, "a private file that this command reads");
  constexpr mode_t others = S_IRGRP | S_IROTH | S_IWGRP | S_IWOTH;
  if ((status.st_mode & others) != 0)
    return wrong(fmt::format("others than its owner may read or write it (mode {:03o}): `chmod 600 {}`",
                             status.st_mode & 0777U, path));
  std::string text(bytes_max + 1, '\0');
  std::size_t length = 0;
  while (length < text.size()) {
    const ssize_t got = ::read(file.descriptor(), text.data() + length, text.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return wrong(std::strerror(errno));
    if (got == 0) break;
    length += static_cast<std::size_t>(got);
  }
  text.resize(length);
  return text;
}

}  // namespace troupe::links
