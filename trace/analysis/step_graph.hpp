// The dependencies of a step as a graph. A node is a moment: an activity or a range of work begins or ends, a message
// is sent or arrives. An edge says by how much one moment follows another at least. The longest path to the step's end
// is its critical path, as in project planning (Kelley and Walker, 1959), with program order and messages as
// dependencies (Yang and Miller, 1988).

#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trace/analysis/causality.hpp"
#include "trace/analysis/steps.hpp"

namespace troupe::analysis {

enum class path_category : std::uint8_t {
  work,         ///< a range of work, or else the handling of a message
  wire,         ///< a message under way from `peer`
  wait,         ///< the actor was free and could have begun the message or its own work, but had not
  idle,         ///< no record says what the actor did
  not_running,  ///< the actor's process did not run, whatever the actor was doing
  on_device,    ///< a device did the actor's `range`, and its host waited for it
};

/// What a part of a path spends its time on.
struct path_part {
  path_category what = path_category::idle;
  std::uint16_t actor = 0;
  std::uint16_t peer = 0;  ///< wire: the sender
  std::uint16_t type = 0;  ///< the message's type, 0 if `range` is set; on_device: the device's number
  trace::range_name range = trace::range_name::none;

  auto operator<=>(const path_part&) const = default;  // NOLINT(modernize-use-nullptr): it compares with 0
};

/// As in `gradient wire` or `update on device 0`, and as in `trainer 0 to server 1`.
std::string what_text(const trace::recording& run, const path_part& what);
std::string who_text(const trace::recording& run, const path_part& what);

/// A part of a path.
struct path_segment {
  path_part what;
  trace::nanoseconds begin = 0;
  trace::nanoseconds end = 0;
  std::uint64_t id = 0;      ///< the message that is handled or under way; 0: none
  std::uint64_t queued = 0;  ///< the message that waits in the queue meanwhile and that the path needs; 0: none

  trace::nanoseconds duration() const { return end - begin; }
};

class step_graph {
 public:
  /// The graph of the events in `window`. Requires: `of` outlives it.
  step_graph(const causality& of, const step_window& window);

  /// The path from the window's begin to its end, in segments without gaps.
  std::vector<path_segment> critical_path() const { return longest_path({}, 1); }

  /// The path if every part that is spent on `scaled` took `factor` of its time. The order of each actor's activities
  /// stays as recorded, so its end is an upper bound.
  std::vector<path_segment> longest_path(const std::optional<path_part>& scaled, double factor) const;

  /// An actor's work, and how much longer it could have taken without a later commit.
  struct slack_of_actor {
    trace::nanoseconds working = 0;
    path_part longest;  ///< its longest work
    trace::nanoseconds longest_time = 0;
    std::optional<trace::nanoseconds> slack;  ///< for its longest work; nullopt: the commit does not depend on it
  };
  std::map<std::uint16_t, slack_of_actor> slack() const;

 private:
  using node = std::uint32_t;
  static constexpr node origin = 0;

  struct moment {
    trace::nanoseconds when = 0;  ///< not before the window's begin
    std::uint64_t begins = 0;     ///< the message whose handling begins here; 0: none
    node arrival = origin;        ///< that message's arrival
  };
  struct edge {
    node from = origin;
    node to = origin;
    trace::nanoseconds time = 0;
    path_part what;
    std::uint64_t id = 0;
    node source = origin;  ///< `from`, or the moment before it if borders of cuts lie between
  };
  /// A part of an edge's time that is reported by itself.
  struct cut {
    trace::nanoseconds begin = 0;
    trace::nanoseconds end = 0;
    path_part what;
  };
  struct activity {
    const trace::event* what = nullptr;
    trace::nanoseconds end_time = 0;  ///< not after the next one's begin
    node begin = origin;
    node end = origin;
    std::vector<node> between;
  };
  struct actor_part {
    std::uint16_t actor = 0;
    std::size_t first = 0;  ///< index of the first among all activities of the actor
    std::vector<activity> activities;
  };

  trace::nanoseconds clip(trace::nanoseconds when) const { return when < window_.begin ? window_.begin : when; }
  node add_moment(trace::nanoseconds when);
  void connect(node from, node to, const path_part& what, std::uint64_t id = 0);
  /// `time`: the edge's length, up to `to`. The parts of it in which a process that it depends on stalled, or in which
  /// the host waited for a device that worked, get edges of their own.
  void connect(node from, node to, trace::nanoseconds time, const path_part& what, std::uint64_t id);
  std::vector<cut> cuts_in(const path_part& what, trace::nanoseconds begin, trace::nanoseconds end) const;
  std::vector<cut> stalls_in(const path_part& what, trace::nanoseconds begin, trace::nanoseconds end) const;
  void add_device_work(std::uint16_t waiting, trace::nanoseconds begin, trace::nanoseconds end,
                       std::vector<cut>& to) const;

  void add_activities(std::uint16_t actor);
  void add_order(actor_part& part);
  void add_message(const trace::event& message, node begin, trace::nanoseconds waited);
  void add_work(activity& one);
  void sort();

  activity* find(const trace::event* one);
  /// The moment `when` of `actor`: within the activity `at`, or after it if it had ended.
  node moment_of(std::uint16_t actor, trace::nanoseconds when, const trace::event* at);
  path_part work_at(const trace::event& one, trace::nanoseconds when) const;

  std::vector<trace::nanoseconds> earliest(const std::optional<path_part>& scaled, double factor) const;
  std::vector<trace::nanoseconds> latest(const std::vector<trace::nanoseconds>& earliest) const;

  const causality& of_;
  const step_window window_;
  std::vector<moment> moments_;
  std::vector<edge> edges_;          ///< by `to`
  std::vector<std::uint32_t> into_;  ///< by moment: the first of its edges; one more at the end
  std::vector<node> order_;          ///< the moments that the commit depends on, in topological order
  std::vector<actor_part> actors_;   ///< by number
  node end_ = origin;
};

}  // namespace troupe::analysis
