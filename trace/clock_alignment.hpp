// The clocks of hosts against each other, from nothing but the messages between them: one that takes no time cannot be,
// so each bounds how far two clocks can be apart.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::trace {

/// A host, on its own clock (nanoseconds).
struct host_clock {
  std::int64_t first = 0;     ///< of what it recorded
  std::int64_t last = 0;      ///< likewise
  std::int64_t realtime = 0;  ///< to be added to have the time since 1970, as the host believes
};

/// A message from one host to another, each time on the clock of the host where it happened.
struct crossing {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::int64_t sent = 0;
  std::int64_t arrived = 0;
};

/// What to add to a host's clock to have the reference's: a line over the host's clock.
struct clock_line {
  std::int64_t origin = 0;  ///< on the host's clock
  std::int64_t offset = 0;  ///< at `origin`, nanoseconds
  double drift_ppm = 0;     ///< nanoseconds by which it grows in a millisecond, as parts per million
  /// How far it may be wrong between the host's first and last moment; of no meaning unless `aligned`.
  std::int64_t error = 0;
  bool aligned = true;  ///< false: no traffic both ways, so it rests on what the hosts believe the time to be

  std::int64_t at(std::int64_t host_time) const;
  std::int64_t to_reference(std::int64_t host_time) const { return host_time + at(host_time); }
};

/// A line for each host; that of `reference` is zero.
///
/// Of two hosts each message is a half-plane in which the line's two ends must lie, as in Moon, Skelly and Towsley,
/// "Estimation and removal of clock skew from network delay measurements" (1999), here from both directions, as in
/// Paxson, "On calibrating measurements of packet transit times" (1998); only corners of the bounds' convex hulls
/// count. What all leave open is a polygon: the line is the middle of its bounding box, which always lies within, and
/// the error half the box. Clocks that drift by more than 500 ppm are believed only if nothing less fits. If no line
/// fits, as after a clock was set, it is the one that is contradicted least, and the error has that added.
///
/// Hosts that are linked through others follow the tree of smallest errors from `reference`, errors added up. Then
/// lines are moved, where needed, until no message between any two hosts arrives before it was sent; errors grow by as
/// much. Unless some clock was no line, that holds for every one of `messages`.
std::vector<clock_line> align_clocks(std::span<const host_clock> hosts, std::span<const crossing> messages,
                                     std::uint32_t reference);

}  // namespace troupe::trace
