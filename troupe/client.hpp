// What runs beside the trainers: a client asks servers for rows or calls their objects while training goes on.

#pragma once

#include <chrono>
#include <cstdint>

#include "troupe/future.hpp"
#include "troupe/remote_server.hpp"

namespace troupe {

namespace runtime {
class client_runtime;
}

/// A client, as its own function sees it (`cluster::client`). Belongs to that function; copies are the same client.
class client {
 public:
  explicit client(runtime::client_runtime& of) : runtime_(&of) {}

  /// All trainers have ended; the function is to return. The run waits for it for 10 s, then drops it where it waits.
  bool run_is_over() const;

  /// To make modules there.
  remote_server server(std::uint32_t rank) const { return remote_server(rank); }

  /// Waits.
  future<> sleep(std::chrono::milliseconds how_long) const;

 private:
  runtime::client_runtime* runtime_;
};

}  // namespace troupe
