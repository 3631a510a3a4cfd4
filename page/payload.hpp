// A look at what a message held: types, shapes and digests, and where the numbers were kept, what they are like.

#pragma once

#include <boost/json/object.hpp>

#include "trace/content.hpp"

namespace troupe::page {

/// Of one part: its name, type, shape and digest; if its bytes are there: min, max, mean, counts of NaN, Inf and zeros,
/// and the first few numbers. Never all of them.
boost::json::object peek(const trace::content_part& part);

}  // namespace troupe::page
