// A buffer in device memory that the receiver of a lookup may write.

#pragma once

namespace troupe::msg {

/// Stays within the process: it is left out when its message is recorded or sent to another process.
class lookup_destination {
 public:
  virtual ~lookup_destination() = default;
};

}  // namespace troupe::msg
