// Connects a process to the master of a run: makes the control link, finds the master's actor, and reports the end of
// the connection.

#pragma once

#include <boost/asio/io_context.hpp>
#include <caf/actor_system.hpp>
#include <caf/expected.hpp>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "actors/common/inline_execution.hpp"
#include "base/result.hpp"
#include "cluster/links/link.hpp"
#include "cluster/nodes/control_tunnel.hpp"
#include "cluster/nodes/run.hpp"
#include "protocol/messages.hpp"

namespace troupe::nodes {

/// Returns a control link to the master, which must be the same build. `time` limits connecting and the handshake;
/// `purpose` and `session` as in `handshake_info`. Returns null if `user_stop` (may be null) requests a stop first.
/// Requires: another thread runs `io`. Blocks. Faults name the master: it cannot be reached (`unreachable`: try again),
/// refuses, or is another build.
result<links::link_ptr> connect_to_master(boost::asio::io_context& io, const links::endpoint& master,
                                          const network_options& network, std::chrono::milliseconds time,
                                          const std::string& purpose, const std::string& session,
                                          const stop_request* user_stop);

/// Starts the tunnel and returns the master's actor at its other end. Calls `on_lost` on the tunnel's thread when the
/// control link has ended.
caf::expected<msg::master_actor> find_master(caf::actor_system& system, control_tunnel& tunnel,
                                             std::chrono::milliseconds timeout,
                                             std::function<void(const std::string& why)> on_lost);

/// Notifies a node's actor that the control connection has ended, even if it ended before the actor existed. Thread:
/// any.
class master_watch {
 public:
  struct loss {
    std::string why;
    /// How long this process was stopped just before, if it was; then the master has not failed.
    std::optional<std::chrono::milliseconds> own_stop = {};
  };

  void lost(loss what) {
    const std::lock_guard lock(mutex_);
    loss_ = std::move(what);
    lost_at_ = std::chrono::steady_clock::now();
    report();
  }

  /// Returns how long ago the connection was lost; null if it was not.
  std::optional<std::chrono::steady_clock::duration> lost_for() const {
    const std::lock_guard lock(mutex_);
    if (!loss_) return std::nullopt;
    return std::chrono::steady_clock::now() - lost_at_;
  }

  /// `call` runs as actor `node`.
  void watcher(const caf::strong_actor_ptr& node, std::function<void(const loss&)> call) {
    const std::lock_guard lock(mutex_);
    node_ = node;
    call_ = std::move(call);
    report();
  }

  void forget() {
    const std::lock_guard lock(mutex_);
    node_ = nullptr;
    call_ = nullptr;
  }

 private:
  void report() {
    if (node_ && loss_) actors::run_in(node_, [call = call_, what = *loss_] { call(what); });
  }

  mutable std::mutex mutex_;
  std::optional<loss> loss_;
  std::chrono::steady_clock::time_point lost_at_;
  caf::strong_actor_ptr node_;
  std::function<void(const loss&)> call_;
};

}  // namespace troupe::nodes
