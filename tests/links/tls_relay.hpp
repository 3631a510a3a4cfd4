// A man in the middle of a link: terminates TLS on both sides with its own credentials, and forwards what is sent.

#pragma once

#include <poll.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cluster/links/transport.hpp"
#include "tests/links/raw_socket.hpp"

namespace troupe::links {

/// Forwards one connection after the other on a thread of its own.
class tls_relay {
 public:
  /// Uses `front` towards the connecting side and `back` towards `target`; if these have no TLS, it forwards the raw
  /// bytes.
  explicit tls_relay(const endpoint& target, const credentials& front = {}, const credentials& back = {})
      : target_(target), front_(front), back_(back) {
    back_.peer_name = target.host;
    thread_ = std::thread([this] { work(); });
  }

  ~tls_relay() {
    ends_ = true;
    thread_.join();
  }
  tls_relay(const tls_relay&) = delete;
  tls_relay& operator=(const tls_relay&) = delete;

  const endpoint& address() const { return server_.address(); }

  /// Returns everything it has read, in both directions.
  std::string seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  static std::unique_ptr<transport> wire_on(const raw_socket& socket, const credentials& mine, link_side side) {
    return mine.tls ? tls_transport(socket.descriptor(), mine, side) : plain_transport(socket.descriptor());
  }

  static bool waits(io_state state) { return state == io_state::wants_read || state == io_state::wants_write; }

  void work() {
    while (!ends_) {
      raw_socket client(-1);
      if (server_.accept(client))
        pass_on(client);
      else
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void pass_on(const raw_socket& client) {
    const raw_socket server = raw_socket::to(target_);
    const std::array<std::unique_ptr<transport>, 2> wires = {wire_on(client, front_, link_side::acceptor),
                                                             wire_on(server, back_, link_side::connector)};
    if (!open(client, server, wires)) return;
    std::vector<std::byte> bytes(std::size_t{64} << 10);
    while (!ends_) {
      for (std::size_t from : {0, 1}) {
        const io_outcome got = wires[from]->read(bytes);
        if (waits(got.state)) continue;
        if (got.state != io_state::done || !write(*wires[1 - from], std::span(bytes).first(got.bytes))) return;
      }
      rest(client, server);
    }
  }

  /// Runs both handshakes to their ends, even if one fails.
  bool open(const raw_socket& client, const raw_socket& server,
            const std::array<std::unique_ptr<transport>, 2>& wires) {
    std::array<io_state, 2> states = {io_state::wants_read, io_state::wants_read};
    while (!ends_ && (waits(states[0]) || waits(states[1]))) {
      for (std::size_t i : {0, 1})
        if (waits(states[i])) states[i] = wires[i]->open().state;
      rest(client, server);
    }
    return states[0] == io_state::done && states[1] == io_state::done;
  }

  bool write(transport& to, std::span<const std::byte> bytes) {
    {
      const std::lock_guard lock(mutex_);
      seen_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    while (!bytes.empty() && !ends_) {
      const iovec all{const_cast<std::byte*>(bytes.data()), bytes.size()};
      const io_outcome sent = to.write({&all, 1});
      if (sent.state != io_state::done && !waits(sent.state)) return false;
      bytes = bytes.subspan(sent.bytes);
    }
    return true;
  }

  /// Waits until bytes have arrived, or for a moment.
  static void rest(const raw_socket& client, const raw_socket& server) {
    std::array<pollfd, 2> both = {{{client.descriptor(), POLLIN, 0}, {server.descriptor(), POLLIN, 0}}};
    ::poll(both.data(), both.size(), 1);
  }

  const endpoint target_;
  const credentials front_;
  credentials back_;
  const raw_server server_;
  std::atomic<bool> ends_ = false;
  mutable std::mutex mutex_;
  std::string seen_;
  std::thread thread_;
};

}  // namespace troupe::links
