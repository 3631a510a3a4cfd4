#include "trace/record/clock_alignment.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

namespace troupe::trace {

namespace {

constexpr double million = 1e6;
/// RFC 5905: the maximum frequency error that NTP assumes of a clock.
constexpr double usual_drift = 500 / million;
constexpr double any_drift = 0.2;
/// In this time light travels 3 m. It exceeds the error of rounding to whole nanoseconds on the way to the reference.
constexpr std::int64_t least_transit_ns = 10;

/// Rounds, and bounds the result to 36 years: times in files may be anything, and sums of results must not overflow.
std::int64_t bounded(double ns) {
  constexpr double most = 0x1p60;
  return std::isnan(ns) ? 0 : std::llround(std::clamp(ns, -most, most));
}

struct point {
  double x;
  double y;
};

double turn(const point& a, const point& b, const point& c) {
  return (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x);
}

/// Keeps only the corners of the bounds' convex hull that bind: lower (side 1) or upper (side -1). Andrew's monotone
/// chain.
template <class T, class At>
void keep_hull(std::vector<T>& bounds, double side, At at) {
  std::ranges::sort(bounds, [&](const T& a, const T& b) {
    return std::pair(at(a).x, side * at(a).y) < std::pair(at(b).x, side * at(b).y);
  });
  std::size_t kept = 0;
  for (const T& next : bounds) {
    if (kept > 0 && at(bounds[kept - 1]).x == at(next).x) continue;
    while (kept >= 2 && side * turn(at(bounds[kept - 2]), at(bounds[kept - 1]), at(next)) <= 0) --kept;
    bounds[kept++] = next;
  }
  bounds.resize(kept);
}

/// The bounds that messages give on another host's clock minus this host's, as points over this host's clock.
struct bounds {
  std::int64_t base = 0;     ///< nanoseconds that all bounds are relative to
  std::int64_t first = 0;    ///< the origin of x
  double span = 1;           ///< nanoseconds from `first` to the last moment
  std::vector<point> upper;  ///< from messages to the other host
  std::vector<point> lower;  ///< from messages sent by the other host
};

/// A set of lines, each given by its values at the first and last moment: the corners of a convex polygon.
using polygon = std::vector<point>;

/// Returns the part of `from` where `a x + b y <= c`.
polygon clip(const polygon& from, double a, double b, double c) {
  polygon left;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const point& p = from[i];
    const point& q = from[(i + 1) % from.size()];
    const double dp = a * p.x + b * p.y - c;
    const double dq = a * q.x + b * q.y - c;
    if (dp <= 0) left.push_back(p);
    if ((dp < 0 && dq > 0) || (dp > 0 && dq < 0)) {
      const double t = dp / (dp - dq);
      left.push_back({p.x + t * (q.x - p.x), p.y + t * (q.y - p.y)});
    }
  }
  return left;
}

polygon lines_within(const bounds& known, double drift, double slack) {
  double far = slack + drift * known.span + 1;
  for (const auto* side : {&known.upper, &known.lower})
    for (const point& p : *side) far = std::max(far, std::abs(p.y) + slack + drift * known.span + 1);
  polygon left = {{-far, -far}, {far, -far}, {far, far}, {-far, far}};
  left = clip(clip(left, -1, 1, drift * known.span), 1, -1, drift * known.span);
  for (const point& p : known.upper) left = clip(left, 1 - p.x / known.span, p.x / known.span, p.y + slack);
  for (const point& p : known.lower) left = clip(left, p.x / known.span - 1, -p.x / known.span, slack - p.y);
  return left;
}

struct fit {
  polygon lines;
  double slack = 0;  ///< by how much the bounds contradict every line
};

fit fit_lines(const bounds& known) {
  for (const double drift : {usual_drift, any_drift})
    if (polygon lines = lines_within(known, drift, 0); !lines.empty()) return {std::move(lines), 0};
  double too_little = 0;
  double enough = 1;
  // Times from a damaged file can exceed the precision of a double.
  constexpr double far_too_much = 1e18;
  while (enough < far_too_much && lines_within(known, usual_drift, enough).empty())
    too_little = std::exchange(enough, enough * 2);
  if (enough >= far_too_much) return {{{0, 0}}, far_too_much};
  constexpr int halvings = 64;
  for (int i = 0; i < halvings && enough - too_little > 1; ++i) {
    const double middle = (enough + too_little) / 2;
    (lines_within(known, usual_drift, middle).empty() ? too_little : enough) = middle;
  }
  return {lines_within(known, usual_drift, enough), enough};
}

clock_line middle_line(const bounds& known) {
  const auto [lines, slack] = fit_lines(known);
  const auto [left, right] = std::ranges::minmax(lines, {}, &point::x);
  const auto [low, high] = std::ranges::minmax(lines, {}, &point::y);
  const double begin = (left.x + right.x) / 2;
  const double end = (low.y + high.y) / 2;
  const double error = std::max(right.x - left.x, high.y - low.y) / 2 + slack;
  return {known.first, known.base + bounded(begin), (end - begin) / known.span * million, bounded(std::ceil(error)) + 1,
          true};
}

using pair_of_hosts = std::pair<std::uint32_t, std::uint32_t>;
/// By (from, to); holds only the messages that bind.
using crossings = std::map<pair_of_hosts, std::vector<crossing>>;

crossings by_pair(std::span<const crossing> messages, std::size_t hosts) {
  crossings all;
  for (const crossing& one : messages)
    if (one.from != one.to && one.from < hosts && one.to < hosts) all[{one.from, one.to}].push_back(one);
  for (auto& [pair, some] : all) {
    const crossing base = some.front();
    // The corners are the same over the receiver's clock: they are where lines of slope one, about, touch.
    keep_hull(some, 1, [&](const crossing& one) {
      const auto x = static_cast<double>(one.sent - base.sent);
      return point{x, static_cast<double>(one.arrived - base.arrived) - x};
    });
  }
  return all;
}

/// The bounds between `host` and `other`; nullopt unless there are messages in both directions.
std::optional<bounds> bounds_of(const crossings& all, std::span<const host_clock> hosts, std::uint32_t host,
                                std::uint32_t other) {
  const auto there = all.find({host, other});
  const auto back = all.find({other, host});
  if (there == all.end() || back == all.end()) return {};
  bounds known;
  known.base = there->second.front().arrived - there->second.front().sent;
  // The line must also cover what the other host recorded earlier or later.
  known.first = std::min(hosts[host].first, hosts[other].first - known.base);
  std::int64_t last = std::max(hosts[host].last, hosts[other].last - known.base);
  for (const crossing& one : there->second) {
    known.first = std::min(known.first, one.sent);
    last = std::max(last, one.sent);
  }
  for (const crossing& one : back->second) {
    known.first = std::min(known.first, one.arrived);
    last = std::max(last, one.arrived);
  }
  known.span = static_cast<double>(std::max<std::int64_t>(last - known.first, 1));
  for (const crossing& one : there->second)
    known.upper.push_back({static_cast<double>(one.sent - known.first),
                           static_cast<double>(one.arrived - one.sent - least_transit_ns - known.base)});
  for (const crossing& one : back->second)
    known.lower.push_back({static_cast<double>(one.arrived - known.first),
                           static_cast<double>(one.sent + least_transit_ns - one.arrived - known.base)});
  return known;
}

/// Composes the line to a neighbour with the neighbour's line to the reference.
clock_line along(const clock_line& to, const clock_line& from_there) {
  const double rate = to.drift_ppm / million;
  const double rate_there = from_there.drift_ppm / million;
  const std::int64_t there = to.origin + to.offset;
  return {to.origin, to.offset + from_there.at(there), ((1 + rate) * (1 + rate_there) - 1) * million,
          bounded(std::ceil(static_cast<double>(to.error) * (1 + std::abs(rate_there)))) + from_there.error + 1, true};
}

/// Grows a tree from the reference over all hosts with traffic both ways, smallest error first (Prim's algorithm).
std::vector<clock_line> grow_tree(std::span<const host_clock> hosts, const crossings& all, std::uint32_t reference) {
  std::vector<clock_line> lines(hosts.size());
  std::vector<bool> done(hosts.size(), false);
  std::vector<std::optional<clock_line>> offered(hosts.size());
  for (std::size_t next = reference; next < hosts.size();) {
    const auto newest = static_cast<std::uint32_t>(next);
    done[newest] = true;
    if (newest != reference) lines[newest] = *offered[newest];
    next = hosts.size();
    for (std::uint32_t host = 0; host < hosts.size(); ++host) {
      if (done[host]) continue;
      if (const auto known = bounds_of(all, hosts, host, newest)) {
        const clock_line line = along(middle_line(*known), lines[newest]);
        if (!offered[host] || line.error < offered[host]->error) offered[host] = line;
      }
      if (offered[host] && (next == hosts.size() || offered[host]->error < offered[next]->error)) next = host;
    }
  }
  for (std::uint32_t host = 0; host < hosts.size(); ++host)
    if (!done[host]) lines[host] = {hosts[host].first, hosts[host].realtime - hosts[reference].realtime, 0, 0, false};
  return lines;
}

/// Moves lines apart until no message arrives before it was sent: the relaxation method of Agmon and of Motzkin and
/// Schoenberg (1954), which terminates if the set of solutions has an interior.
class relaxation {
 public:
  relaxation(std::vector<clock_line>& lines, std::span<const host_clock> hosts, std::uint32_t reference)
      : lines_(lines), before_(lines), hosts_(hosts), reference_(reference), moved_(lines.size()) {}

  void run(const crossings& all) {
    constexpr int rounds_max = 1000;
    for (int round = 0; round < rounds_max; ++round) {
      bool is_done = true;
      for (const auto& [pair, some] : all)
        for (const crossing& one : some) is_done = satisfy(one) && is_done;
      if (is_done) break;
    }
    for (std::size_t i = 0; i < lines_.size(); ++i)
      lines_[i].error += bounded(std::ceil(std::max(std::abs(moved_[i].x), std::abs(moved_[i].y))));
  }

 private:
  /// Returns false if lines had to be moved.
  bool satisfy(const crossing& one) {
    constexpr std::int64_t rounding_ns = 2;
    const auto missing =
        rounding_ns + lines_[one.from].to_reference(one.sent) - lines_[one.to].to_reference(one.arrived);
    if (missing <= 0) return true;
    const double at_sent = share(one.from, one.sent);
    const double at_arrived = share(one.to, one.arrived);
    const double norm =
        (is_fixed(one.from, one.to) ? 0 : squares(at_sent)) + (is_fixed(one.to, one.from) ? 0 : squares(at_arrived));
    const double by = static_cast<double>(missing + least_transit_ns) / norm;
    if (!is_fixed(one.from, one.to)) move(one.from, -by, at_sent);
    if (!is_fixed(one.to, one.from)) move(one.to, by, at_arrived);
    return false;
  }

  /// If only one of the two clocks is known, the other one is moved.
  bool is_fixed(std::uint32_t host, std::uint32_t other) const {
    return host == reference_ || (lines_[host].aligned && !lines_[other].aligned);
  }
  static double squares(double x) { return (1 - x) * (1 - x) + x * x; }
  double span(std::uint32_t host) const {
    return static_cast<double>(std::max<std::int64_t>(hosts_[host].last - lines_[host].origin, 1));
  }
  double share(std::uint32_t host, std::int64_t when) const {
    return std::clamp(static_cast<double>(when - lines_[host].origin) / span(host), 0.0, 1.0);
  }
  void move(std::uint32_t host, double by, double x) {
    moved_[host].x += by * (1 - x);
    moved_[host].y += by * x;
    lines_[host].offset = before_[host].offset + bounded(moved_[host].x);
    lines_[host].drift_ppm = before_[host].drift_ppm + (moved_[host].y - moved_[host].x) / span(host) * million;
  }

  std::vector<clock_line>& lines_;
  const std::vector<clock_line> before_;
  const std::span<const host_clock> hosts_;
  const std::uint32_t reference_;
  std::vector<point> moved_;  ///< each line's values at the first and the last moment
};

}  // namespace

std::int64_t clock_line::at(std::int64_t host_time) const {
  return offset + bounded(static_cast<double>(host_time - origin) * drift_ppm / million);
}

std::vector<clock_line> align_clocks(std::span<const host_clock> hosts, std::span<const crossing> messages,
                                     std::uint32_t reference) {
  const crossings all = by_pair(messages, hosts.size());
  std::vector<clock_line> lines = grow_tree(hosts, all, reference);
  relaxation(lines, hosts, reference).run(all);
  return lines;
}

}  // namespace troupe::trace
