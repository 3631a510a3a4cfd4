// A trainer's communication with other trainers: its groups, the collectives that it calls in them, and tensors that it
// sends and receives. Trainers exchange messages directly, within a process and between processes alike, so that each
// sends and sums the same wherever they are.

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

#include "actors/common/actor_trace.hpp"
#include "actors/trainer/trainer_maker.hpp"
#include "protocol/messages.hpp"
#include "troupe/future.hpp"
#include "troupe/group.hpp"
#include "troupe/runtime/group_call.hpp"
#include "troupe/runtime/wait_cycles.hpp"
#include "troupe/source_location.hpp"

namespace troupe::runtime {

class communicator;

struct group_name {
  /// The group of all trainers in which their passes synchronize; the users' subgroups count from 1.
  static constexpr std::uint32_t of_passes = UINT32_MAX;
  /// The group in which the trainers of a partitioned network send each other their weights after their functions have
  /// returned.
  static constexpr std::uint32_t of_ends = UINT32_MAX - 1;

  bool is_of_ends() const { return instance == of_ends; }

  std::vector<std::uint32_t> members;  ///< ranks of trainers
  std::uint32_t instance = 0;          ///< counts groups of the same members, from 1; 0: the group of all trainers

  auto operator<=>(const group_name&) const = default;  // NOLINT(modernize-use-nullptr): it compares with 0
};

/// The terms of a group's call.
struct call_terms {
  std::chrono::milliseconds deadline;
  source_location at = {};  ///< in the user's code; no line: called by the library
  /// The future that the user has instead of the call's own; null: the call's own.
  std::shared_ptr<const detail::future_state> user_result = nullptr;
  bool is_of_pass = false;  ///< whether a pass waits for it before it continues
};

/// The calls of a trainer and of the others in one group.
struct group_calls {
  using time_point = caf::actor_clock::time_point;

  /// A wait of this trainer for others.
  struct wait {
    std::chrono::milliseconds deadline{0};
    time_point due = {};
    std::uint64_t since = 0;  ///< on the recorder's clock
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
    std::string place;  ///< the location of the `send`
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
  actors::rank_layout layout = {};               ///< for sums: each member is its own process
  std::uint64_t calls = 0;                       ///< made by this trainer
  std::map<std::uint64_t, under_way> open = {};  ///< by number
  std::map<address, mailbox> mail = {};
};

/// Belongs to a trainer's actor. `take` handles a message, and throws if no trainer would send it.
class communicator {
 public:
  communicator(caf::scheduled_actor* self, actors::actor_trace& trace, const std::uint64_t& step)
      : self_(self), trace_(trace), step_(step) {}
  communicator(const communicator&) = delete;
  communicator& operator=(const communicator&) = delete;

  /// Sets the peers, before any other call. `rank`: this trainer's.
  void set_peers(std::uint32_t rank, const actors::trainer_peers& peers);

  // -- for groups ---------------------------------------------------------------------

  /// The group of all trainers. `instance`: 0, or `group_name::of_passes`.
  std::shared_ptr<group_calls> all(std::uint32_t instance = 0);
  /// A group of these members for sending and receiving after `end`.
  std::shared_ptr<group_calls> of_ends(const std::vector<std::uint32_t>& members) {
    return find_or_make({members, group_name::of_ends});
  }
  std::shared_ptr<group_calls> subgroup(const group_calls& parent, const std::vector<std::uint32_t>& ranks);
  /// Throws `error` if this trainer cannot make that call.
  template <class Result>
  future<Result> call(group_calls& in, call_order&& what, const call_terms& how) {
    const std::string text = checked(in, what);
    promise<Result> answer;
    auto coming = answer.get_future();
    begin(in, std::move(what), text, std::move(answer), how);
    return coming;
  }
  void send(group_calls& in, const tensor& x, std::uint32_t to, std::uint32_t tag, const source_location& at);
  future<tensor> receive(group_calls& in, std::uint32_t from, std::uint32_t tag, const call_terms& how);

  /// The location of the function's last call that may wait for others inside a pass: errors about the wait name it.
  const source_location& place() const { return place_; }
  void set_place(const source_location& at) { place_ = at; }

  // -- for the trainer ------------------------------------------------------------------

  void take(msg::collective_share& share);
  void take(const msg::collective_sum& sum);
  void take(msg::peer_tensor& sent);
  void take(const msg::peer_ended& word);

  /// Ends the trainer function's part after so many optimizer steps. Calls `then` when others have received all that
  /// this trainer has sent, and its own calls and receives have ended or failed: callbacks may still use them. Throws
  /// `error` if it has not received everything.
  void end(std::uint64_t steps, std::function<void()> then);

  /// While `stops` returns true, waits are refused: they fail with `run_stopped`.
  void stops_when(std::function<bool()> stops) { stops_ = std::move(stops); }
  /// Fails all pending waits with `run_stopped`. Call it when `stops` begins to return true.
  void stop_waiting();

  /// Returns the call or tensor that a task waits for, if it needs other trainers. `in_a_pass`: the task waits inside a
  /// pass. Waits with a deadline shorter than `patience` are left out: the program may intend them.
  std::optional<trainer_wait> awaited(bool in_a_pass, std::chrono::milliseconds patience) const;
  /// Whether a pending call or receive has a callback of the user's, which may do anything.
  bool calls_back() const;
  /// Whether another trainer waits for a call or tensor that this trainer has not made or sent.
  bool owes(const msg::peer_wait& theirs) const;
  void send_probe(std::uint32_t to, std::uint64_t number, std::vector<msg::peer_wait> path) {
    notify(to, msg::wait_probe{trace_.next(step_), rank_, number, std::move(path)});
  }
  std::uint32_t rank() const { return rank_; }
  /// Sends all other trainers the optimizer of this trainer's step.
  void share_optimizer(std::uint64_t step, const std::string& text, const std::string& place) {
    for (std::uint32_t rank = 0; rank < peers_.of_rank.size(); ++rank)
      if (rank != rank_) notify(rank, msg::peer_optimizer{trace_.next(step), rank_, step, text, place});
  }
  /// Refuses the current message unless it comes from that trainer.
  void check_sender(std::uint32_t rank) const;

  /// Adds what it waits for.
  void report_waits(const std::string& name, std::vector<msg::wait_status>& to) const;

 private:
  using time_point = group_calls::time_point;
  using calls_at = std::map<std::uint64_t, group_calls::under_way>::iterator;

  /// Returns the call as text.
  static std::string checked(const group_calls& in, const call_order& what);
  void begin(group_calls& in, call_order what, const std::string& text, decltype(group_calls::under_way::answer) answer,
             const call_terms& how);
  calls_at open(group_calls& in, std::uint64_t number) { return in.open.try_emplace(number, in.layout).first; }
  group_calls::wait wait_from_now(const call_terms& how) const;
  void advance(group_calls& in, calls_at at);
  std::optional<error> broken(const group_calls& in, const group_calls::under_way& one, std::uint64_t number) const;
  static void fail(group_calls& in, calls_at at, const std::exception_ptr& why);

  std::shared_ptr<group_calls> find_or_make(group_name name);
  /// Returns the group of a message and its sender's rank there.
  std::pair<std::shared_ptr<group_calls>, std::uint32_t> place_of(std::uint32_t rank,
                                                                  std::vector<std::uint32_t>& members,
                                                                  std::uint32_t instance);
  bool is_here(std::uint32_t rank) const { return !peers_.senders[rank]; }
  void check_backlog(std::uint32_t rank) const;
  template <class Message>
  void notify(std::uint32_t rank, Message message) {
    caf::unsafe_send_as(self_, peers_.of_rank[rank], std::move(message));
  }
  void keep_from_recorder(msg::tensor& numbers) const;
  trace::call_state state_of(const group_calls& in, std::uint64_t number, const group_calls::under_way& one) const;
  trace::call_state state_of(const group_calls& in, group_calls::address at, const group_calls::receiver& one) const;
  /// `key`: the number of a call, or the address of a receive.
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
  std::vector<std::uint64_t> arrived_;                             ///< by rank: tensors
  std::vector<std::uint64_t> received_;                            ///< by rank: tensors that the function has received
  std::vector<std::uint64_t> backlog_;              ///< by rank: shares and tensors that this trainer has not called
                                                    ///< for
  std::map<std::uint32_t, msg::peer_ended> ended_;  ///< by rank
  std::function<void()> at_end_;
  std::function<bool()> stops_ = [] { return false; };
  std::optional<time_point> looks_at_;
  source_location place_;
  bool shows_all_ = true;  ///< whether all open calls are on the board
};

}  // namespace troupe::runtime
