// Room in a device's memory that whoever is given it may write.

#pragma once

#include <memory>

namespace troupe {

/// Stays within the process: messages that carry it are written down and sent further without it.
class device_room {
 public:
  virtual ~device_room() = default;
};

}  // namespace troupe
