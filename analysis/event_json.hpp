// A record by itself, as lists and lines of records show it.

#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "analysis/trace.hpp"

namespace troupe::analysis {

/// Whether it is a message's own: handled, sent or arrived.
bool is_of_message(const trace::event& one);

/// What it is about: a message's type, the name of a range or a metric, why something was dropped; empty for the
/// others.
std::string type_of(const trace::recording& run, const trace::event& one);

/// `{kind, begin_ns, end_ns, step, actor}`, `type` if it has one, and of a message `message`, `from`, `bytes`,
/// `sent_ns`, `arrived_ns`.
boost::json::object event_json(const trace::recording& run, const trace::event& one);

}  // namespace troupe::analysis
