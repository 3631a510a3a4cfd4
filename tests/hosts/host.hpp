// Three hosts within this machine: network namespaces, each with its own address and name, on one bridge.
//
// a  10.77.0.1 ---+
// b  10.77.0.2 ---+--- the switch 10.77.0.254
// c  10.77.0.3 ---+
// b  10.99.0.2 ------- 10.99.0.1, a network that a and c cannot reach
//
// On b the unreachable network comes first and has the default route, so that code that uses the first interface, or
// the default route's, uses the wrong one. None of this has a name outside of this process: the kernel removes it once
// the process and those that it started on the hosts are gone, however they end. So tests may run in parallel.

#pragma once

#include <string>

namespace troupe::hosts {

/// Whether this process may make hosts, which needs the capabilities CAP_NET_ADMIN and CAP_SYS_ADMIN.
bool may_make_hosts();

class host {
 public:
  /// Makes a host with nothing but a loopback interface.
  explicit host(const std::string& name);
  ~host();
  host(const host&) = delete;
  host& operator=(const host&) = delete;

  /// The file that names its network, also for other processes.
  std::string network_file() const;

  /// Runs lines of the program `ip` on it; throws if one fails.
  void ip(const std::string& lines) const;

  /// Keeps its thread on that host during its lifetime: processes, threads and sockets made meanwhile stay there.
  class visit {
   public:
    explicit visit(const host& receiver);
    ~visit();
    visit(const visit&) = delete;
    visit& operator=(const visit&) = delete;

   private:
    int home_network_;
    int home_name_;
  };

 private:
  std::string name_;
  int network_ = -1;
  int uts_ = -1;  // the namespace that has its name
};

/// The hosts and networks above.
class three_hosts {
 public:
  three_hosts();

  /// Takes the interface of `receiver` down: no error is reported, but its bytes are lost.
  void cut(const host& receiver) const;
  /// Brings it up again.
  void mend(const host& receiver) const;

  host outside{"switch"};
  host a{"a"};
  host b{"b"};
  host c{"c"};

  static constexpr const char* outside_address = "10.77.0.254";
  static constexpr const char* a_address = "10.77.0.1";
  static constexpr const char* b_address = "10.77.0.2";
  static constexpr const char* c_address = "10.77.0.3";
  static constexpr const char* b_lonely_address = "10.99.0.2";
};

}  // namespace troupe::hosts
