// Functions that run beside the trainers: a client asks servers for rows or calls their objects during training.

#pragma once

#include <chrono>
#include <cstdint>

#include "troupe/future.hpp"
#include "troupe/remote_server.hpp"

namespace troupe {

namespace runtime {
class client_runtime;
}

/// A client, for its own function (`cluster::client`). Belongs to that function; copies refer to the same client.
class client {
 public:
  explicit client(runtime::client_runtime& of) : runtime_(&of) {}

  /// Returns whether all trainers have ended; if so, the function should return. The run waits 10 s for the function,
  /// then drops it.
  bool run_is_over() const;

  /// Returns a server, to make modules there.
  remote_server server(std::uint32_t rank) const { return remote_server(rank); }

  /// Waits for this time.
  future<> sleep(std::chrono::milliseconds how_long) const;

 private:
  runtime::client_runtime* runtime_;
};

}  // namespace troupe
