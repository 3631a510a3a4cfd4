// What analyses read: a recording, under the names that it has in trace/.

#pragma once

#include "trace/recording.hpp"

namespace troupe::analysis {

using namespace trace;

}  // namespace troupe::analysis
