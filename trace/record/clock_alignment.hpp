// Aligns the clocks of hosts, using only the messages between them: no message takes less than no time, so each one
// bounds how far two clocks can be apart.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::trace {

/// The span of a host's records, on its own clock (nanoseconds).
struct host_clock {
  std::int64_t first = 0;     ///< time of its first record
  std::int64_t last = 0;      ///< time of its last record
  std::int64_t realtime = 0;  ///< add it to get the time since 1970 as the host believes
};

/// A message from one host to another; each time is on the clock of the host where it was taken.
struct crossing {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::int64_t sent = 0;
  std::int64_t arrived = 0;
};

/// The correction from a host's clock to the reference clock, as a linear function of the host's clock.
struct clock_line {
  std::int64_t origin = 0;  ///< on the host's clock
  std::int64_t offset = 0;  ///< at `origin`, nanoseconds
  double drift_ppm = 0;     ///< growth of the correction, parts per million (ns per ms)
  /// The maximum error in nanoseconds between the host's first and last record; meaningless unless `aligned`.
  std::int64_t error = 0;
  bool aligned = true;  ///< false: no traffic in both directions, so it relies on the hosts' own idea of the time

  std::int64_t at(std::int64_t host_time) const;
  std::int64_t to_reference(std::int64_t host_time) const { return host_time + at(host_time); }
};

/// Returns a line for each host; the line of `reference` is zero.
///
/// Between two hosts each message is a half-plane in which the line's two ends must lie, as in Moon, Skelly and
/// Towsley, "Estimation and removal of clock skew from network delay measurements" (1999), here from both directions,
/// as in Paxson, "On calibrating measurements of packet transit times" (1998); only the corners of the bounds' convex
/// hulls count. The half-planes leave a polygon: the line is the middle of its bounding box, always inside it; the
/// error is half the box. Drift above 500 ppm is accepted only if no smaller drift fits. If no line fits, e.g. after a
/// clock was set, the one contradicted least is used, and the contradiction is added to the error.
///
/// Hosts linked only through others follow the tree of smallest errors from `reference`, errors added up. Then lines
/// are moved, where needed, until no message between any two hosts arrives before it was sent; errors grow by the same
/// amount. This holds for every one of `messages`, unless some clock was not linear.
std::vector<clock_line> align_clocks(std::span<const host_clock> hosts, std::span<const crossing> messages,
                                     std::uint32_t reference);

}  // namespace troupe::trace
