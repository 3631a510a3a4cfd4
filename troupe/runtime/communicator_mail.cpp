// A trainer's sends and receives, the end of its part, and deadlines.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "troupe/runtime/communicator.hpp"
#include "troupe/runtime/deadline.hpp"
#include "troupe/runtime/errors.hpp"
#include "troupe/runtime/group_text.hpp"
#include "troupe/runtime/place.hpp"

namespace troupe::runtime {

namespace {

/// Calls `f` for each open call of this trainer in a group; `f` may end it.
void for_each_call(group_calls& in, const auto& f) {
  for (auto at = in.open.begin(); at != in.open.end();) {
    const auto one = at++;
    if (one->second.call.is_called()) f(one);
  }
}

}  // namespace

// -- sending and receiving ----------------------------------------------------------------

void communicator::send(group_calls& in, const tensor& x, std::uint32_t to, std::uint32_t tag,
                        const source_location& at) {
  const std::string text = fmt::format("send of {} of {}", to_string(x.shape()), name_of(x.type()));
  check_partner(in, to, text);
  check_tensor(x, text);
  const std::uint32_t rank = in.name.members[to];
  if (!in.name.is_of_ends() && ended_.contains(rank))
    throw error(error_kind::input, fmt::format("{} with tag {} to trainer {}{}, whose function has returned", text, tag,
                                               rank, in_brackets(at)));
  if (!in.name.is_of_ends()) ++sent_[rank];
  given_numbers given = numbers_of(clone_of(x));
  notify(rank, msg::peer_tensor{trace_.next(step_), rank_, in.name.members, in.name.instance, tag,
                                std::move(given.lengths), std::move(given.numbers), text_of(at)});
}

future<tensor> communicator::receive(group_calls& in, std::uint32_t from, std::uint32_t tag, const call_terms& how) {
  check_partner(in, from, "recv");
  const std::uint32_t rank = in.name.members[from];
  promise<tensor> answer;
  auto coming = answer.get_future();
  group_calls::mailbox& box = in.mail[{from, tag}];
  if (!box.arrived.empty()) {
    if (!in.name.is_of_ends()) ++received_[rank];
    --backlog_[rank];
    answer.set(std::move(box.arrived.front().numbers));
    box.arrived.pop_front();
  } else if (!in.name.is_of_ends() && ended_.contains(rank)) {
    answer.fail(never_comes(in, from, tag, how.at));
  } else if (stops_()) {
    answer.fail(std::make_exception_ptr(run_stopped()));
  } else {
    box.receivers.push_back({wait_from_now(how), std::move(answer)});
    show(in, group_calls::address{from, tag}, box.receivers.back());
    look_at(box.receivers.back().due);
  }
  return coming;
}

void communicator::take(msg::peer_tensor& sent) {
  const auto [in, member] = place_of(sent.rank, sent.members, sent.instance);
  keep_from_recorder(sent.numbers);
  auto numbers = tensor_of({std::move(sent.lengths), std::move(sent.numbers)});
  if (!numbers) refuse(fmt::format("a malformed tensor of trainer {}", sent.rank));
  if (!in->name.is_of_ends()) ++arrived_[sent.rank];
  group_calls::mailbox& box = in->mail[{member, sent.tag}];
  if (box.receivers.empty()) {
    box.arrived.push_back({std::move(*numbers), std::move(sent.place)});
    ++backlog_[sent.rank];
    return check_backlog(sent.rank);
  }
  const auto answer = std::move(box.receivers.front().answer);
  box.receivers.pop_front();
  if (!in->name.is_of_ends()) ++received_[sent.rank];
  answer.set(std::move(*numbers));
  show_rest();
  end_if_received();
}

// -- the end ------------------------------------------------------------------------------------

void communicator::end(std::uint64_t steps, std::function<void()> then) {
  for (const auto& [name, in] : groups_)
    for (const auto& [at, box] : in->mail)
      if (!box.arrived.empty() && !name.is_of_ends())
        throw error(
            error_kind::input,
            fmt::format("returned without having received {} of {} that trainer {} has sent with tag {}{}",
                        to_string(box.arrived.front().numbers.shape()), name_of(box.arrived.front().numbers.type()),
                        in->name.members[at.from], at.tag, in_brackets(box.arrived.front().place)));
  at_end_ = std::move(then);
  for (std::uint32_t rank = 0; rank < peers_.of_rank.size(); ++rank)
    if (rank != rank_) notify(rank, msg::peer_ended{trace_.next(step_), rank_, steps, received_[rank]});
  end_if_received();
}

/// Whether the trainer function waits for something from others.
bool communicator::has_waits() const {
  return std::ranges::any_of(groups_, [](const auto& group) {
    const auto& [name, in] = group;
    if (name.is_of_ends()) return false;
    const auto is_called = [](const auto& one) { return one.second.call.is_called(); };
    const auto is_awaited = [](const auto& one) { return !one.second.receivers.empty(); };
    return std::ranges::any_of(in->open, is_called) || std::ranges::any_of(in->mail, is_awaited);
  });
}

void communicator::end_if_received() {
  if (!at_end_ || (has_waits() && !stops_())) return;
  for (std::uint32_t rank = 0; rank < sent_.size(); ++rank)
    if (sent_[rank] > 0 && !ended_.contains(rank) && !stops_()) return;
  std::exchange(at_end_, nullptr)();
}

void communicator::stop_waiting() {
  const auto stopped = std::make_exception_ptr(run_stopped());
  for (const auto& [name, in] : groups_) {
    for_each_call(*in, [&, &in = *in](calls_at one) { fail(in, one, stopped); });
    for (auto& [at, box] : in->mail)
      for (const auto& one : std::exchange(box.receivers, {})) one.answer.fail(stopped);
  }
  end_if_received();
}

void communicator::take(const msg::peer_ended& word) {
  check_sender(word.rank);
  ended_[word.rank] = word;
  if (word.received < sent_[word.rank])
    throw error(
        error_kind::input,
        fmt::format("trainer {} has sent {} tensors to trainer {}, whose function has returned after it received "
                    "{}",
                    rank_, sent_[word.rank], word.rank, word.received));
  fail_waits_for(word.rank);
  end_if_received();
}

void communicator::fail_waits_for(std::uint32_t rank) {
  for (const auto& [name, in] : groups_) {
    for_each_call(*in, [&, &in = *in](calls_at one) { advance(in, one); });
    for (auto& [at, box] : in->mail)
      if (in->name.members[at.from] == rank && !name.is_of_ends())
        for (const auto& one : std::exchange(box.receivers, {}))
          one.answer.fail(never_comes(*in, at.from, at.tag, one.at));
  }
}

// -- deadlines --------------------------------------------------------------------------------

/// Uses one timer for all calls: a timer for each would wake another thread every time.
void communicator::look_at(time_point due) {
  if (looks_at_ && *looks_at_ <= due) return;
  looks_at_ = due;
  self_->run_delayed(due - self_->clock().now(), [this] { look(); });
}

void communicator::look() {
  const auto now = self_->clock().now();
  if (!looks_at_ || now < *looks_at_) return;
  looks_at_.reset();
  std::optional<time_point> next;
  const auto is_late = [&](time_point due) {
    if (due > now) next = std::min(next.value_or(due), due);
    return due <= now;
  };
  for (const auto& [name, in] : groups_) {
    for_each_call(*in, [&, &in = *in](calls_at one) {
      if (is_late(one->second.due))
        fail(in, one, std::make_exception_ptr(error(error_kind::deadline, lateness(in, one->first, groups_))));
    });
    for (auto& [at, box] : in->mail)
      while (!box.receivers.empty() && is_late(box.receivers.front().due)) {
        const auto late = std::move(box.receivers.front());
        box.receivers.pop_front();
        late.answer.fail(error(error_kind::deadline, fmt::format("{}, which has sent none within {} s",
                                                                 receipt_text(*in, at.from, at.tag, late.at),
                                                                 static_cast<double>(late.deadline.count()) / 1000)));
      }
  }
  if (next) look_at(*next);
  end_if_received();
}

}  // namespace troupe::runtime
