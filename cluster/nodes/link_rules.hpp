// Decides which data links a process needs, which of them it dials, and which peers it accepts. Makes no connections
// itself.

#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "cluster/links/connect.hpp"
#include "cluster/links/hello.hpp"
#include "protocol/messages.hpp"

namespace troupe::nodes {

/// A process's identity within its run.
struct link_identity {
  std::uint64_t run = 0;
  std::uint32_t node = 0;
  std::uint32_t incarnation = 0;
  /// Servers have links to each other.
  bool servers_talk = false;
};

/// Thread: one.
class link_rules {
 public:
  /// Needs a link to each of `peers` with which this process exchanges messages.
  void expect(const link_identity& me, std::vector<msg::peer_node> peers);

  /// Returns null if that node is not in the run.
  const msg::peer_node* find(std::uint32_t node) const;
  const msg::peer_node* myself() const { return find(me_.node); }
  /// Returns the nodes to which this process connects; the others connect to it.
  std::vector<std::uint32_t> to_dial() const;

  /// Returns what this process sends about itself when it connects.
  links::hello about_me() const;
  /// Accepts a peer by its hello if a link to it is needed.
  links::hello_reply check_hello(const links::hello& theirs, const std::string& certificate) const;

  /// Notes that the link to that node exists.
  void made(std::uint32_t node) { missing_.erase(node); }
  /// Returns whether no link is missing.
  bool complete() const { return missing_.empty(); }

 private:
  bool need_a_link(const msg::peer_node& a, const msg::peer_node& b) const;

  link_identity me_;
  std::vector<msg::peer_node> peers_;
  std::set<std::uint32_t> missing_;  ///< nodes without a link yet
};

/// Returns the node number in a hello, or UINT64_MAX.
std::uint64_t node_in(const links::hello& items);

}  // namespace troupe::nodes
