#include "page/verdict.hpp"

#include <algorithm>
#include <boost/json/array.hpp>

#include "analysis/blocked.hpp"
#include "page/message_list.hpp"
#include "page/steps.hpp"

namespace troupe::page {

namespace {

using trace::nanoseconds;

/// At any moment some actor is at work, and others wait for it: what counts is since when.
nanoseconds stuck_for(const reading& of, const analysis::blocked_report& report) {
  if (report.what == analysis::blockage::handler_running && report.root) {
    const trace::actor_state* root = of.what->find_actor(*report.root);
    if (root != nullptr && root->message_begin >= 0) return of.now - root->message_begin;
  }
  nanoseconds shortest = INT64_MAX;
  for (const analysis::wait_edge& wait : report.waits)
    if (!report.root || wait.on == *report.root) shortest = std::min(shortest, of.now - wait.since);
  return shortest == INT64_MAX ? 0 : std::max<nanoseconds>(0, shortest);
}

}  // namespace

boost::json::object blocked_json(const reading& of, const analysis::step_windows& steps) {
  const analysis::blocked_report report = analysis::find_blocked(*of.what);
  boost::json::object all = analysis::to_json(*of.what, report);
  boost::json::array& waits = all["waits"].as_array();
  for (std::size_t i = 0; i < waits.size(); ++i)
    if (report.waits[i].message != 0) waits[i].as_object()["id"] = write_id(report.waits[i].message);
  constexpr nanoseconds second = 1'000'000'000;
  const nanoseconds stuck = stuck_for(of, report);
  all["stuck_ns"] = stuck;
  all["moving"] = of.live && report.what != analysis::blockage::dead && stuck < std::max(second, 3 * slow_step(steps));
  return all;
}

}  // namespace troupe::page
