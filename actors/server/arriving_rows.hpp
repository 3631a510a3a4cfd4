// Rows that a lookup copies from a device to the host.

#pragma once

#include <cstddef>
#include <memory>

#include "kernels/device_array.hpp"
#include "model/table_batch.hpp"

namespace troupe::actors {

/// Both buffers are in use until the copy is done.
struct arriving_rows {
  ~arriving_rows() {
    try {
      wait();
    } catch (const kernels::device_error&) {
      // The next use of the device reports the error.
    }
  }

  /// Waits once for all rows of a lookup.
  void wait() const {
    if (begun && begun->done && !begun->done->is_over()) begun->done->wait();
  }

  kernels::device_array<float> there;
  std::shared_ptr<std::byte> here;
  std::shared_ptr<const model::table_batch::lookup> begun;
};

}  // namespace troupe::actors
