// How a process reaches the master of a run: a control link, and through it the master's actor.

#pragma once

#include <boost/asio/io_context.hpp>
#include <caf/actor_system.hpp>
#include <caf/expected.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "actors/control_tunnel.hpp"
#include "actors/run.hpp"
#include "base/result.hpp"
#include "links/link.hpp"
#include "protocol/messages.hpp"

namespace troupe {

struct master_address {
  endpoint where;
  credentials mine;
  /// The master is taken for dead when it has been silent for so long.
  std::chrono::milliseconds dead_after{5000};
  /// For connecting and introducing oneself, once.
  std::chrono::milliseconds time{5000};
};

/// A control link to the master, whose build is found to be the same. `purpose` and `session` as in `introduction`;
/// `io` is run by another thread, for which this one waits. `worth_another_try` says whether nobody listened there.
/// Null: a stop was wished (`stop_wish` may be null) before there was an outcome; what was begun ends with `io`.
/// Faults name the master: it cannot be reached, refuses, or is of another build.
result<link_ptr> connect_to_master(boost::asio::io_context& io, const master_address& master,
                                   const std::string& purpose, const std::string& session, bool& worth_another_try,
                                   const stop_request* stop_wish);

/// The master's actor, at the other end of a tunnel that begins with this. `on_lost` is called on the tunnel's thread
/// when the control link has ended.
caf::expected<master_actor> find_master(caf::actor_system& system, control_tunnel& tunnel,
                                        std::chrono::milliseconds patience,
                                        std::function<void(const std::string& why)> on_lost);

}  // namespace troupe
