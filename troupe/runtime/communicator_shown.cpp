// Shows a trainer's open calls: on the board, for analyses, and in its status.

#include <fmt/format.h>

#include <span>

#include "base/digest.hpp"
#include "troupe/runtime/communicator.hpp"

namespace troupe::runtime {

namespace {

trace::call_state state_in(const group_calls& in, std::uint64_t since, std::uint64_t number, std::uint64_t step) {
  const auto members = std::as_bytes(std::span(in.name.members));
  return {.since = since, .number = number, .step = step, .group = digest_of(members), .instance = in.name.instance};
}

}  // namespace

trace::call_state communicator::state_of(const group_calls& in, std::uint64_t number,
                                         const group_calls::under_way& one) const {
  trace::call_state made = state_in(in, one.since, number, one.step);
  if (one.call.is_meeting()) made.kind = trace::call_kind::meeting;
  made.set_text(one.call.call_of(in.me).text);
  made.lacks_sums = one.call.now() == group_call::state::exchanging ? 1 : 0;
  for (std::uint32_t member = 0; member < in.name.members.size(); ++member) {
    made.members.add(in.name.members[member]);
    if (!one.call.has_share(member) || one.call.lacks_sum(member)) made.missing.add(in.name.members[member]);
  }
  return made;
}

trace::call_state communicator::state_of(const group_calls& in, group_calls::address at,
                                         const group_calls::receiver& one) const {
  trace::call_state made = state_in(in, one.since, at.tag, one.step);
  made.kind = trace::call_kind::receipt;
  made.set_text("recv");
  made.members.add(rank_);
  made.members.add(in.name.members[at.from]);
  made.missing.add(in.name.members[at.from]);
  return made;
}

/// Called when a share or a sum has arrived for a call, which may be over.
void communicator::show_after(group_calls& in, std::uint64_t number) {
  const auto at = in.open.find(number);
  if (at != in.open.end() && at->second.call.is_called()) show(in, number, at->second);
  show_rest();
}

/// Shows the calls that the board had no room for before.
void communicator::show_rest() {
  if (shows_all_) return;
  shows_all_ = true;
  for (const auto& [name, in] : groups_) {
    for (auto& [number, one] : in->open)
      if (shows_all_ && !one.shown && one.call.is_called()) show(*in, number, one);
    for (auto& [at, box] : in->mail)
      for (group_calls::receiver& one : box.receivers)
        if (shows_all_ && !one.shown) show(*in, at, one);
  }
}

void communicator::report_waits(const std::string& name, std::vector<msg::wait_status>& to) const {
  for (const auto& [group, in] : groups_) {
    for (const auto& [number, one] : in->open) {
      if (!one.call.is_called()) continue;
      const trace::call_state now = state_of(*in, number, one);
      for (const std::uint32_t rank : now.missing.ranks())
        to.push_back({name, title_of(now), one.step, fmt::format("trainer {}", rank)});
    }
    for (const auto& [at, box] : in->mail)
      for (const group_calls::receiver& one : box.receivers)
        to.push_back({name, fmt::format("recv with tag {}", at.tag), one.step,
                      fmt::format("trainer {}", group.members[at.from])});
  }
}

}  // namespace troupe::runtime
