// Registration of the message types with CAF.

#pragma once

namespace troupe::protocol {

/// Registers Troupe's messages with CAF. Call it before creating an actor system; further calls do nothing. Thread:
/// any.
void initialize_types();

}  // namespace troupe::protocol
