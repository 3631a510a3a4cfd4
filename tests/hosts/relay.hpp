// A relay between processes of a run, for what a network can do to their connections: delay and throttle them, swallow
// what is sent while the connections stay open, end them, and spoil what is under way. It does not look into what it
// passes on, except for where frames begin.

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

#include "links/endpoint.hpp"

namespace troupe::hosts {

/// How bytes travel, in either direction.
struct travel {
  /// How long each byte is under way.
  std::chrono::milliseconds delay{0};
  /// How many go through, per second; 0: as many as come.
  std::uint64_t bytes_per_s = 0;
};

/// Which way bytes go: from those who connect to the relay to its target, and back.
enum class way : std::uint8_t { there, back };

/// What happens to some bytes.
struct damage {
  enum class kind : std::uint8_t {
    flip,     ///< one bit is another
    drop,     ///< the bytes from a place on never come, those that follow do
    lose,     ///< they never come, those that follow do
    repeat,   ///< they come twice
    cut_off,  ///< the bytes from a place on never come, and the connection ends
  };
  kind what = kind::flip;
  /// The bit or byte, of as many as there are: larger numbers begin anew.
  std::size_t at = 0;
  /// They are encrypted: then not a frame is spoilt, but what comes together.
  bool encrypted = false;
};

/// Its thread does the work; call from one other thread. Listens and connects on the host that its maker is on.
class relay {
 public:
  /// Listens at `host`, at any free port that is free at `target`'s host too if that has port 0: then the target is to
  /// take it.
  relay(const std::string& host, const links::endpoint& target, travel how = {});
  ~relay();
  relay(const relay&) = delete;
  relay& operator=(const relay&) = delete;

  const links::endpoint& address() const { return address_; }

  /// From now on what goes that way never arrives, not even an end.
  void swallow(way which);
  /// Ends all connections, and takes no more.
  void lose();

  /// Spoils, of what goes that way from now on, the first frame with some content.
  void spoil(way which, damage how);
  /// Whether that has happened.
  bool has_spoiled() const { return has_spoiled_; }

  /// How many bytes have been passed on.
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
  int reserved_ = -1;  // keeps the target's port from others until the target has it
  int wakes_ = -1;
  std::atomic<bool> ends_ = false;
  std::atomic<bool> loses_ = false;
  std::array<std::atomic<bool>, 2> swallows_ = {};
  std::array<std::atomic<std::uint64_t>, 2> passed_ = {};
  std::atomic<bool> has_spoiled_ = false;
  std::mutex mutex_;
  std::array<std::optional<damage>, 2> wanted_;  // guarded by mutex_
  std::list<connection> connections_;            // of the thread
  std::thread thread_;
};

}  // namespace troupe::hosts
