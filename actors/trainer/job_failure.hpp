// How a trainer of a job reports its failure.

#pragma once

#include <cstdint>

#include "actors/common/failure.hpp"
#include "actors/common/own_device.hpp"
#include "actors/common/traced_system.hpp"
#include "actors/trainer/trainer_body.hpp"

namespace troupe::actors {

/// Ends the trainer because of `answer`, an error of its own or one that it received.
inline void fail_job(const trainer_context& actor, std::uint64_t at_step, const caf::error& answer) {
  const caf::error cause = cause_behind(answer, devices_of(actor.self->system()).of_trainer(actor.rank));
  // An invalid row is a fault of the data, so the error does not name the trainer that read it.
  if (cause == errc::bad_input) return actor.fail(cause);
  if (protocol::is_secondary(cause))
    return actor.fail(make_failure(errc::peer_failed, "{}, step {}: an answer did not come: {}", actor.name, at_step,
                                   protocol::describe(cause)));
  actor.fail(failure_of(actor.name, at_step, cause));
}

}  // namespace troupe::actors
