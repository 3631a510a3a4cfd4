#include "troupe/runtime/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "troupe/runtime/deadline.hpp"
#include "troupe/runtime/errors.hpp"
#include "troupe/runtime/group_text.hpp"
#include "troupe/runtime/place.hpp"

namespace troupe::runtime {

namespace {

/// The most calls and tensors of one other trainer that arrive before this one's own calls. Far above any program's.
constexpr std::uint64_t backlog_max = std::uint64_t{1} << 16;
constexpr std::size_t groups_max = std::size_t{1} << 16;

}  // namespace

/// Copies a message's numbers if the recorder still reads them: the user may change theirs.
void communicator::keep_from_recorder(msg::tensor& numbers) const {
  if (!trace_.keeps_contents() || numbers.bytes.empty()) return;
  const auto bytes = numbers.bytes.as<std::byte>();
  numbers.bytes = msg::blob::own(std::vector<std::byte>(bytes.begin(), bytes.end()));
}

void communicator::set_peers(std::uint32_t rank, const actors::trainer_peers& peers) {
  rank_ = rank;
  peers_ = peers;
  for (auto* counts : {&sent_, &arrived_, &received_, &backlog_}) counts->assign(peers_.of_rank.size(), 0);
}

// -- groups -----------------------------------------------------------------------------------

std::shared_ptr<group_calls> communicator::find_or_make(group_name name) {
  auto& known = groups_[name];
  if (known) return known;
  const auto me = static_cast<std::uint32_t>(std::ranges::find(name.members, rank_) - name.members.begin());
  const auto size = static_cast<std::uint32_t>(name.members.size());
  actors::rank_layout layout{std::vector<std::uint32_t>(size), size, me};
  std::iota(layout.process_of_rank.begin(), layout.process_of_rank.end(), 0U);
  known = std::make_shared<group_calls>(group_calls{*this, std::move(name), me, std::move(layout)});
  return known;
}

std::shared_ptr<group_calls> communicator::all(std::uint32_t instance) {
  if (peers_.of_rank.empty()) throw error(error_kind::input, "group: this trainer has no peers");
  group_name name{std::vector<std::uint32_t>(peers_.of_rank.size()), instance};
  std::iota(name.members.begin(), name.members.end(), 0U);
  return find_or_make(std::move(name));
}

std::shared_ptr<group_calls> communicator::subgroup(const group_calls& parent,
                                                    const std::vector<std::uint32_t>& ranks) {
  const std::string list = fmt::format("subgroup({{{}}})", fmt::join(ranks, ", "));
  const std::size_t size = parent.name.members.size();
  group_name name;
  for (const std::uint32_t rank : ranks) {
    if (rank >= size) throw error(error_kind::input, fmt::format("{}: the group has ranks 0 to {}", list, size - 1));
    name.members.push_back(parent.name.members[rank]);
  }
  if (std::set<std::uint32_t>(ranks.begin(), ranks.end()).size() < ranks.size())
    throw error(error_kind::input, fmt::format("{}: a rank twice", list));
  if (std::ranges::find(ranks, parent.me) == ranks.end())
    throw error(error_kind::input,
                fmt::format("{} called by rank {}, which is not in it; only members call it", list, parent.me));
  // The group of all trainers counts as the first of its members, so that every group's name is unique.
  const std::uint32_t before = name.members.size() == peers_.of_rank.size() ? 1 : 0;
  name.instance = before + ++subgroups_[name.members];
  return find_or_make(std::move(name));
}

std::pair<std::shared_ptr<group_calls>, std::uint32_t> communicator::place_of(std::uint32_t rank,
                                                                              std::vector<std::uint32_t>& members,
                                                                              std::uint32_t instance) {
  check_sender(rank);
  const auto at = std::ranges::find(members, rank);
  const auto place = static_cast<std::uint32_t>(at - members.begin());
  group_name name{std::move(members), instance};
  const auto known = groups_.find(name);
  if (known != groups_.end()) return {known->second, place};
  const auto& all = name.members;
  const bool is_one = place < all.size() && std::ranges::find(all, rank_) != all.end() &&
                      std::ranges::all_of(all, [&](std::uint32_t one) { return one < peers_.of_rank.size(); }) &&
                      std::set<std::uint32_t>(all.begin(), all.end()).size() == all.size() &&
                      (instance != 0 || all.size() == peers_.of_rank.size());
  if (!is_one || groups_.size() >= groups_max)
    refuse(fmt::format("a collective of trainer {} in an impossible group", rank));
  return {find_or_make(std::move(name)), place};
}

void communicator::check_sender(std::uint32_t rank) const {
  const bool is_peer = rank < peers_.of_rank.size() && rank != rank_;
  if (!is_peer || (!is_here(rank) && peers_.senders[rank] != self_->current_sender()))
    refuse(fmt::format("a collective of trainer {} from another process", rank));
}

void communicator::check_backlog(std::uint32_t rank) const {
  if (backlog_[rank] > backlog_max)
    throw error(error_kind::run,
                fmt::format("trainer {} is more than {} collectives and tensors ahead of trainer {}; await them from "
                            "time to time",
                            rank, backlog_max, rank_));
}

// -- calling --------------------------------------------------------------------------------

std::string communicator::checked(const group_calls& in, const call_order& what) {
  std::string text = description_of(what, in);
  const auto size = static_cast<std::uint32_t>(in.name.members.size());
  if (has_root(what.kind) && what.root >= size)
    throw error(error_kind::input,
                fmt::format("{}: root {}, the group has ranks 0 to {}", name_of(what.kind), what.root, size - 1));
  if (needs_input(what, in.me)) check_tensor(what.input, text);
  if (what.kind == collective_kind::scatter && what.root == in.me) {
    if (what.parts.size() != size)
      throw error(error_kind::input, fmt::format("{}: {} tensors for {} ranks", text, what.parts.size(), size));
    for (const tensor& one : what.parts) check_tensor(one, text);
  }
  const shape& lengths = what.input.shape();
  if (what.kind == collective_kind::reduce_scatter && (lengths.dimensions() == 0 || lengths[0] % size != 0))
    throw error(error_kind::input,
                fmt::format("{}: the first dimension must be a multiple of the {} ranks", text, size));
  if (what.how == reduce_op::mean && what.input.type() == dtype::i64)
    throw error(error_kind::input, fmt::format("{}: int64 has no mean; try the sum, or float64", text));
  return text;
}

group_calls::wait communicator::wait_from_now(const call_terms& how) const {
  return {
      how.deadline,  self_->clock().now() + bounded(how.deadline), trace_.latest(), step_, {}, how.at, how.user_result,
      how.is_of_pass};
}

void communicator::begin(group_calls& in, call_order what, const std::string& text,
                         decltype(group_calls::under_way::answer) answer, const call_terms& how) {
  const auto at = open(in, ++in.calls);
  group_calls::under_way& one = at->second;
  const std::string place = text_of(how.at);
  one.call.call(std::move(what), {text, place});
  one.answer = std::move(answer);
  static_cast<group_calls::wait&>(one) = wait_from_now(how);
  for (std::uint32_t member = 0; member < in.name.members.size(); ++member) {
    if (member == in.me) continue;
    const std::uint32_t rank = in.name.members[member];
    if (one.call.has_share(member)) --backlog_[rank];
    given_numbers given = one.call.share_for(member, is_here(rank));
    notify(rank, msg::collective_share{trace_.next(step_), rank_, in.name.members, in.name.instance, at->first, text,
                                       std::move(given.lengths), std::move(given.numbers), place});
  }
  const auto due = one.due;
  advance(in, at);
  const auto waits = in.open.find(in.calls);
  if (waits == in.open.end()) return;
  if (stops_()) return fail(in, waits, std::make_exception_ptr(run_stopped()));
  show(in, waits->first, waits->second);
  look_at(due);
}

/// Returns why a call cannot complete.
std::optional<error> communicator::broken(const group_calls& in, const group_calls::under_way& one,
                                          std::uint64_t number) const {
  if (const auto other = one.call.disagreeing()) return error(error_kind::input, disagreement(in, number, *other));
  for (std::uint32_t member = 0; member < in.name.members.size(); ++member)
    if (!one.call.has_share(member) && ended_.contains(in.name.members[member]))
      return error(error_kind::input, fmt::format("{}, which trainer {} has not called: its function has returned",
                                                  call_text(in, number), in.name.members[member]));
  return {};
}

/// Does a call's next step, after a change.
void communicator::advance(group_calls& in, calls_at at) {
  auto& [number, one] = *at;
  if (!one.call.is_called()) return;
  if (const auto why = broken(in, one, number)) return fail(in, at, std::make_exception_ptr(*why));
  if (one.call.now() == group_call::state::collecting && one.call.has_all_shares()) {
    if (!one.call.finish())
      return fail(in, at,
                  std::make_exception_ptr(error(
                      error_kind::run, fmt::format("{}: another trainer has given other numbers than such a call has",
                                                   call_text(in, number)))));
    if (const auto& sum = one.call.sum())
      for (const std::uint32_t rank : in.name.members)
        if (rank != rank_)
          notify(rank, msg::collective_sum{trace_.next(step_), rank_, in.name.members, in.name.instance, number, *sum});
  }
  if (one.call.now() != group_call::state::reduced) return;
  auto results = one.call.take_results();
  auto answer = std::move(one.answer);
  in.open.erase(at);
  std::visit(
      [&]<class Answer>(Answer& to) {
        if constexpr (std::is_same_v<Answer, promise<>>)
          to.set();
        else if constexpr (std::is_same_v<Answer, promise<tensor>>)
          to.set(std::move(results.front()));
        else if constexpr (std::is_same_v<Answer, promise<std::vector<tensor>>>)
          to.set(std::move(results));
      },
      answer);
}

void communicator::fail(group_calls& in, calls_at at, const std::exception_ptr& why) {
  auto answer = std::move(at->second.answer);
  in.open.erase(at);
  std::visit(
      [&](auto& to) {
        if constexpr (requires { to.fail(why); }) to.fail(why);
      },
      answer);
}

void communicator::take(msg::collective_share& share) {
  const auto [in, member] = place_of(share.rank, share.members, share.instance);
  if (share.number <= in->calls && !in->open.contains(share.number)) return;  // it has failed
  const auto at = open(*in, share.number);
  group_call& one = at->second.call;
  if (one.has_share(member)) refuse(fmt::format("a collective of trainer {} twice", share.rank));
  keep_from_recorder(share.numbers);
  one.add_share(member, {std::move(share.call), std::move(share.place)},
                {std::move(share.lengths), std::move(share.numbers)});
  if (!one.is_called()) {
    ++backlog_[share.rank];
    check_backlog(share.rank);
  }
  advance(*in, at);
  show_after(*in, share.number);
  end_if_received();
}

void communicator::take(const msg::collective_sum& sum) {
  auto members = sum.members;
  const auto [in, member] = place_of(sum.rank, members, sum.instance);
  const auto at = in->open.find(sum.number);
  if (at == in->open.end() && sum.number <= in->calls) return;  // it has failed
  if (at == in->open.end() || !at->second.call.add_sum(member, sum.numbers))
    refuse(fmt::format("an unexpected sum of trainer {}", sum.rank));
  advance(*in, at);
  show_after(*in, sum.number);
  end_if_received();
}

}  // namespace troupe::runtime
