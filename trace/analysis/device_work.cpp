#include "trace/analysis/device_work.hpp"

#include <algorithm>
#include <boost/json/object.hpp>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "base/units.hpp"
#include "trace/analysis/steps.hpp"
#include "trace/analysis/table.hpp"

namespace troupe::analysis {

namespace {

/// The time that the events cover.
trace::nanoseconds covered_by(std::vector<const trace::event*> all) {
  std::ranges::sort(all, {}, &trace::event::begin);
  trace::nanoseconds sum = 0;
  trace::nanoseconds free = std::numeric_limits<trace::nanoseconds>::min();
  for (const trace::event* one : all) {
    sum += std::max<trace::nanoseconds>(one->end - std::max(one->begin, free), 0);
    free = std::max(free, one->end);
  }
  return sum;
}

}  // namespace

device_use find_device_use(const causality& of) {
  std::map<std::tuple<std::uint16_t, std::uint16_t, trace::range_name>, std::vector<trace::nanoseconds>> times;
  std::map<std::pair<std::string, std::uint16_t>, std::vector<const trace::event*>> by_device;
  for (const auto& [lane, spans] : of.device_lanes()) {
    for (const trace::event* one : spans) {
      times[{lane.actor, lane.device, range_of(*one)}].push_back(one->end - one->begin);
      by_device[{of.run().processes[one->process].host, lane.device}].push_back(one);
    }
  }
  device_use found;
  for (auto& [whose, all] : times) {
    const auto& [actor, device, what] = whose;
    trace::nanoseconds sum = 0;
    for (const trace::nanoseconds time : all) sum += time;
    found.works.push_back({actor, device, what, all.size(), percentile(all, 50), sum});
  }
  std::ranges::stable_sort(found.works, {}, [](const device_use::work& one) { return std::pair(one.actor, -one.sum); });
  for (auto& [which, all] : by_device) found.devices.push_back({which.first, which.second, covered_by(std::move(all))});
  return found;
}

std::string device_use_text(const trace::recording& run, const device_use& what, trace::nanoseconds whole,
                            std::size_t limit) {
  if (what.works.empty()) return "";
  table works({"actor", "device", "work", "times", "median", "in all", "of the time"}, "lrlrrrr");
  for (const device_use::work& one : what.works)
    works.add({run.actor_name(one.actor), std::to_string(one.device), run.range_text(one.what), count_text(one.times),
               time_text(one.median), time_text(one.sum), share_text(one.sum, whole)});
  table devices({"device", "host", "busy", "of the time", "idle"}, "rlrrr");
  for (const device_use::device& one : what.devices)
    devices.add({std::to_string(one.number), one.host, time_text(one.busy), share_text(one.busy, whole),
                 time_text(std::max<trace::nanoseconds>(whole - one.busy, 0))});
  return "\nWork on devices, by their clocks\n" + works.text(limit) + "\nDevices\n" + devices.text();
}

boost::json::array device_work_json(const trace::recording& run, const device_use& what) {
  boost::json::array all;
  for (const device_use::work& one : what.works)
    all.push_back({{"actor", run.actor_name(one.actor)},
                   {"device", one.device},
                   {"what", run.range_text(one.what)},
                   {"times", one.times},
                   {"median_ns", one.median},
                   {"sum_ns", one.sum}});
  return all;
}

boost::json::array devices_json(const device_use& what, trace::nanoseconds whole) {
  boost::json::array all;
  for (const device_use::device& one : what.devices)
    all.push_back({{"host", one.host},
                   {"device", one.number},
                   {"busy_ns", one.busy},
                   {"idle_ns", std::max<trace::nanoseconds>(whole - one.busy, 0)}});
  return all;
}

}  // namespace troupe::analysis
