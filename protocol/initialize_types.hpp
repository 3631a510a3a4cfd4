// CAF's table of message types.

#pragma once

namespace troupe::protocol {

/// Makes Troupe's messages known to CAF. To be called before there is an actor system; further calls do nothing. Any
/// thread.
void initialize_types();

}  // namespace troupe::protocol
