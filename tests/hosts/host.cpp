#include "tests/hosts/host.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "tests/end_to_end/program.hpp"

namespace troupe::hosts {

namespace {

constexpr const char* own_network = "/proc/thread-self/ns/net";
constexpr const char* own_name = "/proc/thread-self/ns/uts";

/// The name of the interface to the bridge on every host.
constexpr const char* device = "wire";

int check(int value, const char* what) {
  if (value < 0) throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
  return value;
}

/// Moves this thread to a new host; false, with errno, if that fails.
bool move_to_new_host() {
  if (::unshare(CLONE_NEWNET | CLONE_NEWUTS) != 0) return false;
  const int any_socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (any_socket < 0) return false;
  ifreq loopback{};
  std::strcpy(loopback.ifr_name, "lo");
  loopback.ifr_flags = IFF_UP;
  const bool up = ::ioctl(any_socket, SIOCSIFFLAGS, &loopback) == 0;
  const int why_not = errno;
  ::close(any_socket);
  errno = why_not;
  return up;
}

int open_this(const char* what) { return check(::open(what, O_RDONLY | O_CLOEXEC), what); }

}  // namespace

bool may_make_hosts() {
  bool may = false;
  std::thread([&may] { may = move_to_new_host() || errno != EPERM; }).join();
  return may;
}

host::host(const std::string& name) : name_(name) {
  std::string problem;
  std::thread([&] {
    if (!move_to_new_host() || ::sethostname(name_.data(), name_.size()) != 0) {
      problem = fmt::format("host {}: {}", name_, std::strerror(errno));
      return;
    }
    network_ = ::open(own_network, O_RDONLY | O_CLOEXEC);
    uts_ = ::open(own_name, O_RDONLY | O_CLOEXEC);
  }).join();
  if (!problem.empty()) throw std::runtime_error(problem);
  check(network_, own_network);
  check(uts_, own_name);
}

host::~host() {
  ::close(network_);
  ::close(uts_);
}

std::string host::network_file() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), network_); }

void host::ip(const std::string& lines) const {
  const std::string file = end_to_end::write_file("ip." + name_, lines);
  const visit there(*this);
  if (std::system(("ip -batch " + file).c_str()) != 0)
    throw std::runtime_error(fmt::format("host {}: its network cannot be made; ip says why above", name_));
}

host::visit::visit(const host& receiver) : home_network_(open_this(own_network)), home_name_(open_this(own_name)) {
  check(::setns(receiver.network_, CLONE_NEWNET), "setns");
  check(::setns(receiver.uts_, CLONE_NEWUTS), "setns");
}

host::visit::~visit() {
  // Everything after this would run on the wrong host.
  if (::setns(home_network_, CLONE_NEWNET) != 0 || ::setns(home_name_, CLONE_NEWUTS) != 0) std::abort();
  ::close(home_network_);
  ::close(home_name_);
}

three_hosts::three_hosts() {
  outside.ip(
      fmt::format("link add bridge type bridge\n"
                  "link set bridge up\n"
                  "address add {}/24 dev bridge\n"
                  "link add lonely type veth peer name first netns {}\n"
                  "link set lonely up\n"
                  "address add 10.99.0.1/24 dev lonely\n",
                  outside_address, b.network_file()));
  b.ip(
      fmt::format("address add {}/24 dev first\n"
                  "link set first up\n"
                  "route add default via 10.99.0.1 dev first metric 1\n",
                  b_lonely_address));
  const auto connect = [this](const char* port, const host& receiver, const char* address) {
    outside.ip(
        fmt::format("link add {0} type veth peer name {1} netns {2}\n"
                    "link set {0} master bridge up\n",
                    port, device, receiver.network_file()));
    receiver.ip(
        fmt::format("address add {0}/24 dev {1}\n"
                    "link set {1} up\n",
                    address, device));
  };
  connect("to-a", a, a_address);
  connect("to-b", b, b_address);
  connect("to-c", c, c_address);
}

void three_hosts::cut(const host& receiver) const { receiver.ip(fmt::format("link set {} down\n", device)); }

void three_hosts::mend(const host& receiver) const { receiver.ip(fmt::format("link set {} up\n", device)); }

}  // namespace troupe::hosts
