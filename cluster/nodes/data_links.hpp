// The data links of one process, as its node's actor uses them. `data_plane` makes them over sockets.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cluster/nodes/data_link.hpp"
#include "cluster/nodes/link_rules.hpp"
#include "protocol/messages.hpp"

namespace troupe::nodes {

class data_links {
 public:
  using identity = link_identity;

  virtual ~data_links() = default;

  /// The actors that other processes may send to.
  virtual actor_directory& actors() = 0;

  /// Accepts links from `peers` only, each with its certificate in that list. Calls `on_lost` on the links' thread when
  /// a needed link ends.
  virtual void expect(const identity& me, std::vector<msg::peer_node> peers,
                      std::function<void(std::uint32_t node, const std::string& why)> on_lost) = 0;

  /// Makes the links that this process dials. Calls `done` once, on the links' thread: with an empty text when all
  /// links exist, including those that others dial, or else with the error.
  virtual void connect(std::function<void(const std::string& problem)> done) = 0;

  /// Returns the newest step for which this process has sent a message. Thread: any.
  virtual std::uint64_t newest_step() const = 0;

  /// Returns the link, or null. Thread: any.
  virtual data_link_ptr link_to(std::uint32_t node) const = 0;
};

}  // namespace troupe::nodes
