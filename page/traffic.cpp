#include "page/traffic.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

namespace troupe::page {

namespace {

using trace::event;
using trace::kind;
using trace::nanoseconds;

/// The first event that begins at `since` or later.
auto from_moment(const trace::recording& of, nanoseconds since) {
  return std::ranges::lower_bound(of.events, since, {}, &event::begin);
}

}  // namespace

std::vector<flow> sum_flows(const trace::recording& of, nanoseconds since) {
  std::unordered_map<std::uint64_t, flow> all;
  for (auto e = from_moment(of, since); e != of.events.end(); ++e) {
    if (e->what != kind::handled) continue;
    const std::uint16_t from = trace::sender_of(e->id);
    flow& sum = all[std::uint64_t{from} << 32 | std::uint64_t{e->actor} << 16 | e->type];
    sum.from = from;
    sum.to = e->actor;
    sum.type = e->type;
    ++sum.messages;
    sum.bytes += e->bytes;
    sum.latency += e->end - e->sent;
    sum.latency_longest = std::max(sum.latency_longest, e->end - e->sent);
    sum.travel += e->arrived - e->sent;
    sum.queued += e->begin - e->arrived;
    sum.worked += e->end - e->begin;
  }
  std::vector<flow> sorted;
  for (const auto& [key, sum] : all) sorted.push_back(sum);
  std::ranges::sort(sorted, {}, [](const flow& x) { return std::tuple(x.from, x.to, x.type); });
  return sorted;
}

std::vector<activity> sum_activities(const trace::recording& of, nanoseconds since) {
  struct running {
    activity sum;
    nanoseconds busy_until = 0;
  };
  std::map<std::uint16_t, running> all;
  for (auto e = from_moment(of, since); e != of.events.end(); ++e) {
    if (e->what != kind::handled && e->what != kind::range) continue;
    auto& [sum, busy_until] = all[e->actor];
    if (e->what == kind::handled) {
      ++sum.messages;
      sum.queued += e->begin - e->arrived;
    }
    // A range may lie within a message's handling, or be work of its own.
    sum.worked += std::max<nanoseconds>(0, e->end - std::max(e->begin, busy_until));
    busy_until = std::max(busy_until, e->end);
  }
  std::vector<activity> sorted;
  for (auto& [actor, one] : all) {
    one.sum.actor = actor;
    sorted.push_back(one.sum);
  }
  return sorted;
}

}  // namespace troupe::page
