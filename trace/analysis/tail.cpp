#include "trace/analysis/tail.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>

#include "base/units.hpp"
#include "trace/analysis/lookup.hpp"
#include "trace/record/names.hpp"

namespace troupe::analysis {

namespace {

/// The last column: its cause, or for some kinds its value.
std::string because_of(const trace::recording& run, const trace::event& one) {
  if (one.what == trace::kind::metric) return fmt::format("{:.6g}", std::bit_cast<double>(one.raw));
  if (one.what == trace::kind::collective || one.what == trace::kind::collective_launch)
    return fmt::format("bucket {}", one.aux);
  if (one.what == trace::kind::exit) return one.aux == 0 ? "" : fmt::format("error {}", one.aux);
  if (is_of_message(one) || one.what == trace::kind::released || one.what == trace::kind::timer)
    return one.cause == 0 ? "" : run.message_name(one.cause);
  return one.id == 0 ? "" : run.message_name(one.id);
}

/// The number of messages in each actor's queue: those that had arrived minus those that had begun.
class queue_depths {
 public:
  explicit queue_depths(const trace::recording& run) {
    for (const trace::event& one : run.events | of_kind(trace::kind::handled)) {
      queue& of = queues_[one.actor];
      of.arrived.push_back(one.arrived);
      of.begun.push_back(one.begin);
    }
    for (auto& [actor, of] : queues_) std::ranges::sort(of.arrived);
  }

  std::uint64_t at(std::uint16_t actor, trace::nanoseconds when) const {
    const queue* known = find_in(queues_, actor);
    if (known == nullptr) return 0;
    const auto until = [when](const std::vector<trace::nanoseconds>& times) {
      return std::ranges::upper_bound(times, when) - times.begin();
    };
    return static_cast<std::uint64_t>(std::max<std::ptrdiff_t>(0, until(known->arrived) - until(known->begun)));
  }

 private:
  struct queue {
    std::vector<trace::nanoseconds> arrived;
    std::vector<trace::nanoseconds> begun;  ///< ascending, as events are
  };
  std::map<std::uint16_t, queue> queues_;
};

}  // namespace

std::vector<tail_event> tail_events(const trace::recording& run, const trace::filter& wanted) {
  const queue_depths depths(run);
  std::vector<tail_event> shown;
  for (const trace::event& one : run.events)
    if (wanted.takes_step(one.step) && wanted.takes_actor(run.actor_name(one.actor)) &&
        wanted.takes_type(type_of(run, one)))
      shown.push_back({&one, one.what == trace::kind::handled ? depths.at(one.actor, one.begin) : 0});
  return shown;
}

std::string tail_header() {
  return fmt::format("{:>13}  {:>7}  {:<12}  {:<17}  {:<19}  {:<12}  {:>9}  {:>8}  {:>8}  {:>5}  {}", "time (s)",
                     "step", "actor", "kind", "type", "from", "bytes", "queued", "worked", "queue", "because of");
}

std::string tail_line(const trace::recording& run, const tail_event& shown) {
  const trace::event& one = *shown.what;
  const bool is_handled = one.what == trace::kind::handled;
  const bool has_bytes = is_of_message(one) || one.what == trace::kind::credit;
  std::string line =
      fmt::format("{:>13.6f}  {:>7}  {:<12}  {:<17}  {:<19}  {:<12}  {:>9}  {:>8}  {:>8}  {:>5}  {}",
                  static_cast<double>(one.begin) / 1e9, one.step, run.actor_name(one.actor), trace::name_of(one.what),
                  type_of(run, one), is_of_message(one) ? run.actor_name(trace::sender_of(one.id)) : "",
                  has_bytes ? size_text(one.bytes) : "", is_handled ? time_text(one.begin - one.arrived) : "",
                  one.end > one.begin ? time_text(one.end - one.begin) : "",
                  is_handled ? fmt::format("{}", shown.queue_depth) : "", because_of(run, one));
  line.resize(line.find_last_not_of(' ') + 1);
  return line;
}

boost::json::object tail_json(const trace::recording& run, const tail_event& shown) {
  const trace::event& one = *shown.what;
  boost::json::object json = event_json(run, one);
  if (one.what == trace::kind::handled) json["queue_depth"] = shown.queue_depth;
  if (one.what == trace::kind::metric) json["value"] = std::bit_cast<double>(one.raw);
  if (one.what != trace::kind::metric)
    if (const std::string because = because_of(run, one); !because.empty()) json["because_of"] = because;
  return json;
}

}  // namespace troupe::analysis
