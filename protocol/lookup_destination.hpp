// Room in a device's memory that whoever is given it may write.

#pragma once

#include <memory>

namespace troupe::msg {

/// Stays within the process: messages that carry it are written down and sent further without it.
class lookup_destination {
 public:
  virtual ~lookup_destination() = default;
};

}  // namespace troupe::msg
