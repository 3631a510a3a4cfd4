// A relay between processes of a run, which imitates network faults: it delays and throttles connections, drops bytes
// while they stay open, ends them, and damages bytes in flight. It does not interpret what it forwards, except to find
// where frames begin.

#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "cluster/links/endpoint.hpp"

namespace troupe::hosts {

/// How bytes travel in both directions.
struct travel {
  /// The delay of each byte.
  std::chrono::milliseconds delay{0};
  /// The throughput; 0 for no limit.
  std::uint64_t bytes_per_s = 0;
};

/// The direction of bytes: from connecting processes to the relay's target, and back.
enum class way : std::uint8_t { there, back };

/// A fault that affects some bytes.
struct damage {
  enum class kind : std::uint8_t {
    flip,     ///< one bit is inverted
    drop,     ///< the rest of the bytes, from an offset on, never arrive, but later ones do
    lose,     ///< they never arrive, but later ones do
    repeat,   ///< they arrive twice
    cut_off,  ///< the rest of the bytes, from an offset on, never arrive, and the connection ends
  };
  kind what = kind::flip;
  /// The index of the bit or byte, modulo their number.
  std::size_t at = 0;
  /// The connection is encrypted: the fault affects bytes that arrive together, not a frame.
  bool encrypted = false;
};

/// Forwards on a thread of its own; call it from one other thread. Listens and connects on the host on which it was
/// made.
class relay {
 public:
  /// Listens at `host`, at any free port. If `target` has port 0, the port is also free at `target`'s host, for the
  /// target to use.
  relay(const std::string& host, const links::endpoint& target, travel how = {});
  ~relay();
  relay(const relay&) = delete;
  relay& operator=(const relay&) = delete;

  const links::endpoint& address() const { return address_; }

  /// From now on nothing sent in that direction arrives, not even an end.
  void swallow(way which);
  /// Ends all connections, and accepts no more.
  void lose();

  /// Damages the first frame with some content that is sent in that direction from now on.
  void spoil(way which, damage how);
  /// Whether it has damaged a frame.
  bool has_spoiled() const { return has_spoiled_; }

  /// The number of bytes forwarded.
  std::uint64_t passed(way which) const { return passed_[static_cast<std::size_t>(which)]; }

 private:
  struct connection;
  struct stretch;

  void work();
  void accept();
  bool move(connection& one);
  void take(stretch& one, way which);
  void deliver(stretch& one, way which);
  void spoil_if_wanted(stretch& one, way which, std::vector<char>& bytes);
  void wake() const;

  const travel how_;
  links::endpoint target_;
  links::endpoint address_;
  int listening_ = -1;
  int reserved_ = -1;  // reserves the target's port until the target has bound it
  int wakes_ = -1;
  std::atomic<bool> ends_ = false;
  std::atomic<bool> loses_ = false;
  std::array<std::atomic<bool>, 2> swallows_ = {};
  std::array<std::atomic<std::uint64_t>, 2> passed_ = {};
  std::atomic<bool> has_spoiled_ = false;
  std::mutex mutex_;
  std::array<std::optional<damage>, 2> wanted_;  // guarded by mutex_
  std::list<connection> connections_;            // used by the relay's thread only
  std::thread thread_;
};

}  // namespace troupe::hosts
