// The waits of a trainer's function for other trainers, and their waits for this one.

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "troupe/runtime/communicator.hpp"
#include "troupe/runtime/group_text.hpp"

namespace troupe::runtime {

namespace {

/// Returns the future state that the user has for a call: it may be awaited, or have a callback.
const detail::future_state* result_of(const group_calls::under_way& one) {
  if (one.user_result) return one.user_result.get();
  return std::visit(
      []<class Answer>(const Answer& to) -> const detail::future_state* {
        if constexpr (std::is_same_v<Answer, std::monostate>)
          return nullptr;
        else
          return to.state().get();
      },
      one.answer);
}

/// Whether the end of a call or receive runs more code though no task awaits it: the user's callback, or a backward
/// pass that has not been awaited.
bool calls_back_user(const group_calls::wait& one, const detail::future_state* result) {
  if (one.is_of_pass || result == nullptr) return false;
  return (one.at.line() != 0 && result->has_callback()) || (one.user_result != nullptr && !result->has_task());
}

std::vector<std::uint32_t> absent(const group_calls& in, const group_call& call) {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t member = 0; member < in.name.members.size(); ++member)
    if (!call.has_share(member)) ranks.push_back(in.name.members[member]);
  return ranks;
}

bool is_of_passes(const group_name& name) { return name.instance == group_name::of_passes; }

}  // namespace

std::optional<trainer_wait> communicator::awaited(bool in_a_pass, std::chrono::milliseconds patience) const {
  for (const auto& [name, in] : groups_) {
    for (const auto& [number, one] : in->open) {
      if (!one.call.is_called() || one.deadline < patience) continue;
      const detail::future_state* const result = result_of(one);
      const bool is_awaited = one.is_of_pass       ? in_a_pass
                              : is_of_passes(name) ? in_a_pass && number == in->calls
                                                   : result != nullptr && result->has_task();
      auto missing = is_awaited ? absent(*in, one.call) : std::vector<std::uint32_t>();
      if (missing.empty()) continue;
      return trainer_wait{
          {rank_, msg::peer_wait::for_call, name.members, name.instance, number, call_text(*in, number)},
          std::move(missing)};
    }
    for (const auto& [at, box] : in->mail)
      for (const group_calls::receiver& one : box.receivers) {
        if (one.deadline < patience || name.is_of_ends() || !one.answer.state()->has_task()) continue;
        const std::uint32_t from = name.members[at.from];
        return trainer_wait{
            {rank_, msg::peer_wait::for_tensor, {}, 0, arrived_[from], receipt_text(*in, at.from, at.tag, one.at)},
            {from}};
      }
  }
  return {};
}

bool communicator::calls_back() const {
  return std::ranges::any_of(groups_, [](const auto& group) {
    const auto& [name, in] = group;
    if (is_of_passes(name) || name.is_of_ends()) return false;
    const auto of_call = [](const auto& one) { return calls_back_user(one.second, result_of(one.second)); };
    const auto of_receipt = [](const group_calls::receiver& one) {
      return calls_back_user(one, one.answer.state().get());
    };
    const auto of_box = [&](const auto& one) { return std::ranges::any_of(one.second.receivers, of_receipt); };
    return std::ranges::any_of(in->open, of_call) || std::ranges::any_of(in->mail, of_box);
  });
}

bool communicator::owes(const msg::peer_wait& theirs) const {
  if (theirs.kind == msg::peer_wait::for_tensor) return sent_[theirs.rank] == theirs.number;
  if (theirs.kind != msg::peer_wait::for_call) return false;
  if (std::ranges::find(theirs.members, rank_) == theirs.members.end()) return false;
  const auto known = groups_.find({theirs.members, theirs.instance});
  if (known == groups_.end()) return true;
  const group_calls& in = *known->second;
  // A trainer without data joins passes: when its last call, which is pending, ends, it calls again by itself.
  if (is_of_passes(known->first) && in.open.contains(in.calls)) return false;
  return in.calls < theirs.number;
}

}  // namespace troupe::runtime
