#include "analysis/part.hpp"

#include <algorithm>
#include <iterator>

namespace troupe::analysis {

namespace {

trace::recording without_events(const trace::recording& of) {
  trace::recording part;
  part.run = of.run;
  part.processes = of.processes;
  part.actors = of.actors;
  part.types = of.types;
  part.realtime_begin_ns = of.realtime_begin_ns;
  return part;
}

}  // namespace

trace::recording part_of(const trace::recording& of, trace::nanoseconds begin, trace::nanoseconds end) {
  trace::recording part = without_events(of);
  const auto last = std::ranges::lower_bound(of.events, end, {}, &trace::event::begin);
  std::copy_if(of.events.begin(), last, std::back_inserter(part.events),
               [&](const trace::event& one) { return one.end >= begin; });
  return part;
}

trace::recording newest_of(const trace::recording& of, std::size_t most) {
  trace::recording part = without_events(of);
  const std::size_t count = std::min(most, of.events.size());
  part.events.assign(of.events.end() - static_cast<std::ptrdiff_t>(count), of.events.end());
  return part;
}

}  // namespace troupe::analysis
