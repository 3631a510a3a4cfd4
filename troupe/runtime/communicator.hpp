// A trainer among the other trainers: its groups, the collectives that it calls in them, and what it sends and
// receives. Trainers talk to each other directly, within a process and between them alike, so that what each sends and
// sums is the same wherever they are.

#pragma once

#include <caf/all.hpp>
#include <chrono>
#include <compare>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "actors/actor_trace.hpp"
#include "actors/trainer_maker.hpp"
#include "protocol/messages.hpp"
#include "troupe/future.hpp"
#include "troupe/group.hpp"
#include "troupe/runtime/group_call.hpp"
#include "troupe/runtime/wait_cycles.hpp"
#include "troupe/source_location.hpp"

namespace troupe::runtime {

class communicator;

struct group_name {
  /// Of all trainers, in which their passes meet; the users' subgroups count from 1.
  static constexpr std::uint32_t of_passes = UINT32_MAX;
  /// The group in which the trainers of a network in parts send each other their weights when their functions have
  /// returned.
  static constexpr std::uint32_t of_ends = UINT32_MAX - 1;

  bool is_of_ends() const { return instance == of_ends; }

  std::vector<std::uint32_t> members;  ///< ranks of trainers
  std::uint32_t instance = 0;          ///< of those of these members, from 1; 0: the group of all trainers

  auto operator<=>(const group_name&) const = default;  // NOLINT(modernize-use-nullptr): it compares with 0
};

/// How a call of a group is made.
struct call_terms {
  std::chrono::milliseconds deadline;
  source_location at = {};  ///< in the user's code; without a line: the library calls
  /// What the user gets in place of the call's own future; null: that.
  std::shared_ptr<const detail::future_state> user_result = nullptr;
  bool is_of_pass = false;  ///< a pass waits for it in its midst
};

/// What a trainer and the others have called in one group.
struct group_calls {
  using time_point = caf::actor_clock::time_point;

  /// What this trainer waits for others for.
  struct wait {
    std::chrono::milliseconds deadline{0};
    time_point due = {};
    std::uint64_t since = 0;  ///< as the recorder counts time
    std::uint64_t step = 0;
    actors::shown_call shown = {};
    source_location at = {};
    std::shared_ptr<const detail::future_state> user_result = nullptr;
    bool is_of_pass = false;
  };
  struct under_way : wait {
    explicit under_way(const actors::rank_layout& layout) : call(layout) {}

    group_call call;
    std::variant<std::monostate, promise<>, promise<tensor>, promise<std::vector<tensor>>> answer = {};
  };
  struct receiver : wait {
    promise<tensor> answer;
  };
  struct arrival {
    tensor numbers;
    std::string place;  ///< of the `send`
  };
  struct mailbox {
    std::deque<arrival> arrived = {};
    std::deque<receiver> receivers = {};
  };
  struct address {
    std::uint32_t from = 0;  ///< rank in the group
    std::uint32_t tag = 0;

    auto operator<=>(const address&) const = default;  // NOLINT(modernize-use-nullptr): it compares with 0
  };

  communicator& owner;
  group_name name;
  std::uint32_t me = 0;                          ///< rank in the group
  actors::rank_layout layout = {};               ///< for sums: each member as a process of its own
  std::uint64_t calls = 0;                       ///< of this trainer
  std::map<std::uint64_t, under_way> open = {};  ///< by number
  std::map<address, mailbox> mail = {};
};

/// Belongs to a trainer's actor. `take` throws if a message is none that a trainer sends.
class communicator {
 public:
  communicator(caf::scheduled_actor* self, actors::actor_trace& trace, const std::uint64_t& step)
      : self_(self), trace_(trace), step_(step) {}
  communicator(const communicator&) = delete;
  communicator& operator=(const communicator&) = delete;

  /// Before everything else. `rank`: of this trainer.
  void meet(std::uint32_t rank, const actors::trainer_peers& peers);

  // -- for groups ---------------------------------------------------------------------

  /// The group of all trainers. `instance`: 0, or `group_name::of_passes`.
  std::shared_ptr<group_calls> all(std::uint32_t instance = 0);
  /// The same members, in which they send and receive after `end`.
  std::shared_ptr<group_calls> of_ends(const std::vector<std::uint32_t>& members) {
    return find_or_make({members, group_name::of_ends});
  }
  std::shared_ptr<group_calls> subgroup(const group_calls& parent, const std::vector<std::uint32_t>& ranks);
  /// Throws `error` if this trainer cannot call that.
  template <class Result>
  future<Result> call(group_calls& in, call_order&& what, const call_terms& how) {
    const std::string words = checked(in, what);
    promise<Result> answer;
    auto coming = answer.get_future();
    begin(in, std::move(what), words, std::move(answer), how);
    return coming;
  }
  void send(group_calls& in, const tensor& x, std::uint32_t to, std::uint32_t tag, const source_location& at);
  future<tensor> receive(group_calls& in, std::uint32_t from, std::uint32_t tag, const call_terms& how);

  /// Where the function has last called what may wait for others in its midst: the place of such waits.
  const source_location& place() const { return place_; }
  void set_place(const source_location& at) { place_ = at; }

  // -- for the trainer ------------------------------------------------------------------

  void take(msg::collective_share& share);
  void take(const msg::collective_sum& sum);
  void take(msg::peer_tensor& sent);
  void take(const msg::peer_ended& word);

  /// The trainer function has returned after so many optimizer steps. Calls `then` when all that this trainer has sent
  /// is received, and what it has called or waits for has come or failed: callbacks may take that. Throws `error` if it
  /// has not received all.
  void end(std::uint64_t steps, std::function<void()> then);

  /// While `stops` says so, nothing is waited for: what would wait fails with `run_stopped`.
  void stops_when(std::function<bool()> stops) { stops_ = std::move(stops); }
  /// Fails all open waits with `run_stopped`. Call it when `stops` begins to return true.
  void stop_waiting();

  /// What a task waits for, if that is a call or a tensor that does not come without other trainers. `in_a_pass`: it
  /// waits in the midst of a pass. A wait with less patience than this does not count: the program may mean its
  /// deadline.
  std::optional<trainer_wait> awaited(bool in_a_pass, std::chrono::milliseconds patience) const;
  /// Whether something that it waits for calls back code of the user's, which could do anything.
  bool calls_back() const;
  /// Whether this trainer has not called, or sent, what another one waits for.
  bool owes(const msg::peer_wait& theirs) const;
  void send_probe(std::uint32_t to, std::uint64_t number, std::vector<msg::peer_wait> path) {
    tell(to, msg::wait_probe{trace_.next(step_), rank_, number, std::move(path)});
  }
  std::uint32_t rank() const { return rank_; }
  /// Sends all other trainers what this one takes an optimizer step with.
  void tell_optimizer(std::uint64_t step, const std::string& words, const std::string& place) {
    for (std::uint32_t rank = 0; rank < peers_.of_rank.size(); ++rank)
      if (rank != rank_) tell(rank, msg::peer_optimizer{trace_.next(step), rank_, step, words, place});
  }
  /// Refuses the current message unless that trainer has sent it.
  void check_sender(std::uint32_t rank) const;

  /// For what it waits.
  void tell_waits(const std::string& name, std::vector<msg::wait_status>& to) const;

 private:
  using time_point = group_calls::time_point;
  using calls_at = std::map<std::uint64_t, group_calls::under_way>::iterator;

  /// Returns the call in words.
  static std::string checked(const group_calls& in, const call_order& what);
  void begin(group_calls& in, call_order what, const std::string& words,
             decltype(group_calls::under_way::answer) answer, const call_terms& how);
  calls_at open(group_calls& in, std::uint64_t number) { return in.open.try_emplace(number, in.layout).first; }
  group_calls::wait wait_from_now(const call_terms& how) const;
  void advance(group_calls& in, calls_at at);
  std::optional<error> broken(const group_calls& in, const group_calls::under_way& one, std::uint64_t number) const;
  static void fail(group_calls& in, calls_at at, const std::exception_ptr& why);

  std::shared_ptr<group_calls> find_or_make(group_name name);
  /// The group of a message and its sender's rank there.
  std::pair<std::shared_ptr<group_calls>, std::uint32_t> place_of(std::uint32_t rank,
                                                                  std::vector<std::uint32_t>& members,
                                                                  std::uint32_t instance);
  bool is_here(std::uint32_t rank) const { return !peers_.senders[rank]; }
  void check_backlog(std::uint32_t rank) const;
  template <class Message>
  void tell(std::uint32_t rank, Message message) {
    caf::unsafe_send_as(self_, peers_.of_rank[rank], std::move(message));
  }
  void keep_from_recorder(msg::tensor& numbers) const;
  trace::call_state state_of(const group_calls& in, std::uint64_t number, const group_calls::under_way& one) const;
  trace::call_state state_of(const group_calls& in, group_calls::address at, const group_calls::receiver& one) const;
  /// `key`: the number of a call, or the address of what is received.
  void show(const group_calls& in, const auto& key, auto& one) {
    if (!trace_.is_on()) return;
    const trace::call_state now = state_of(in, key, one);
    if (one.shown)
      one.shown.show(now);
    else
      one.shown = trace_.show(now);
    shows_all_ = shows_all_ && one.shown;
  }
  void show_after(group_calls& in, std::uint64_t number);
  void show_rest();
  void fail_waits_for(std::uint32_t rank);
  bool has_waits() const;
  void end_if_received();

  void look_at(time_point due);
  void look();

  caf::scheduled_actor* self_;
  actors::actor_trace& trace_;
  const std::uint64_t& step_;
  std::uint32_t rank_ = 0;
  actors::trainer_peers peers_;
  std::map<group_name, std::shared_ptr<group_calls>> groups_;
  std::map<std::vector<std::uint32_t>, std::uint32_t> subgroups_;  ///< by members: how many this trainer has made
  std::vector<std::uint64_t> sent_;                                ///< by rank: tensors
  std::vector<std::uint64_t> arrived_;                             ///< likewise
  std::vector<std::uint64_t> received_;                            ///< likewise: those that the function has taken
  std::vector<std::uint64_t> backlog_;              ///< by rank: what came and nobody here has called for
  std::map<std::uint32_t, msg::peer_ended> ended_;  ///< by rank
  std::function<void()> at_end_;
  std::function<bool()> stops_ = [] { return false; };
  std::optional<time_point> looks_at_;
  source_location place_;
  bool shows_all_ = true;  ///< open calls, on the board
};

}  // namespace troupe::runtime
