// A pair of sockets between a process and its child. Message boundaries are kept; a message may carry a descriptor.

#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace troupe {

/// One end. Thread: any may send, one at a time may receive.
class message_socket {
 public:
  static constexpr std::size_t bytes_max = std::size_t{160} << 10;

  struct message {
    std::string text;
    std::optional<descriptor> attached;
  };

  /// Returns two connected ends, closed on exec. The fault contains only the system's reason.
  static result<std::pair<message_socket, message_socket>> make_pair();

  /// Sends a message of at most `bytes_max` bytes; blocks while the other end's queue is full. Returns false if the
  /// other end is closed. `attached`: a descriptor; the receiver gets a duplicate.
  bool send(const std::string& text, int attached = -1) const;

  /// Returns the next message; null after the timeout, or if the other end is closed and nothing is left.
  std::optional<message> receive(std::chrono::milliseconds timeout) const;

 private:
  explicit message_socket(descriptor end) : end_(std::move(end)) {}

  descriptor end_;
};

}  // namespace troupe
