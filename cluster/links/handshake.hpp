// Performs the handshake over a connected, non-blocking socket, within a time limit.

#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "cluster/links/handshake_role.hpp"
#include "cluster/links/stream_link.hpp"
#include "cluster/links/tcp.hpp"
#include "cluster/links/transport.hpp"

namespace troupe::links {

/// Keeps itself alive until it is over. Thread: the one that runs the io_context.
class handshake : public std::enable_shared_from_this<handshake> {
 public:
  using clock = std::chrono::steady_clock;

  struct task {
    link_side side = link_side::connector;
    std::unique_ptr<handshake_role> role;
    /// The other side's name in texts.
    std::string name;
    std::chrono::milliseconds time{};
    clock::time_point deadline;
    /// Called once, unless `cancel` comes first.
    std::function<void(result<greeted_connection>)> done;
  };

  handshake(tcp_socket socket, const credentials& mine, task what);

  void start();

  /// Ends the handshake at once, without a call of `done`.
  void cancel();

  /// Ends the handshake, and calls `done`.
  void give_up(std::string why);

 private:
  bool choose_wire();
  void advance();
  bool write_out();
  bool read_in();
  bool wait_for(io_state state);
  void wait(tcp_socket::wait_type what);
  void take(handshake_step step);
  void fail(fault why);
  void on_socket_ended(io_outcome outcome);
  void finish();
  void linger();
  void release();

  tcp_socket socket_;
  const credentials mine_;
  std::unique_ptr<transport> wire_;  ///< null until the first byte shows whether it is TLS, if both are accepted
  io_timer deadline_;
  task task_;
  endpoint local_;
  endpoint remote_;
  bool open_ = false;
  bool lingers_ = false;
  bool over_ = false;
  std::size_t lingered_bytes_ = 0;
  handshake_step step_;
  std::size_t sent_ = 0;
  std::vector<std::byte> in_;
};

}  // namespace troupe::links
