// Which failure an actor on a device reports: its own device's first, since other actors may fail because of it.

#pragma once

#include "actors/common/failure.hpp"
#include "kernels/device.hpp"

namespace troupe::actors {

/// Throws if the device has failed. Does not wait for its streams.
inline void check_device(const kernels::device& own) {
  if (!own.is_host()) own.memory();  // throws after a failure, as every call does
}

/// Returns the cause of `answer`, an error that an actor received: the failure of its own device, if the error only
/// says that another actor has ended.
inline caf::error cause_behind(const caf::error& answer, const kernels::device& own) {
  if (!protocol::is_secondary(answer)) return answer;
  try {
    check_device(own);
  } catch (const kernels::device_error& failed) {
    if (failed.why() == kernels::device_error::reason::failed) return cause_of(failed);
  }
  return answer;
}

}  // namespace troupe::actors
