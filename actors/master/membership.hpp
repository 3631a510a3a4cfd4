// The members of a run: its servers and trainers by rank, the processes that host them, and what the loss of one of
// them means. It is not an actor: the master calls it, and carries out its verdicts.
//
//   early ──open──▶ open ──close──▶ closed
//
//   | state  | what may join                                              | a member that leaves   |
//   |--------|------------------------------------------------------------|------------------------|
//   | early  | members in this process: the job is not known yet          | causes no verdict      |
//   | open   | any offer of ranks that the run still lacks                | frees its ranks        |
//   | closed | no member: the run has begun                               | ends the run           |

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/messages.hpp"

namespace troupe::actors {

/// How a master deals with members in other processes.
struct node_rules {
  /// The timeout of a request that is answered at once or after bounded work.
  std::chrono::milliseconds request_timeout{300'000};
  /// The command that resumes from the last checkpoint; reported when a process has died.
  std::string resume;
  /// The run has started its own members, each with a rank: other processes are refused.
  bool own_members = false;
  /// Returns the fingerprint of a control connection's certificate, by session; empty: the connection has none. Null:
  /// no connection has one.
  std::function<std::string(const std::string& session)> certificate_of = {};
  /// Returns whether another attempt would follow if this one failed. Null: no attempt would.
  std::function<bool()> again = {};
  /// How long lost members may take to come back; after that, other nodes host their ranks.
  std::chrono::milliseconds rejoin_timeout{60'000};
  /// The number of this attempt at the run, and the failure of the previous one; its members must come back.
  std::uint64_t attempt = 1;
  std::string lost = {};
  /// Returns for how long this process was stopped, if its members may just have taken the pause for its death. Null:
  /// this process is never stopped.
  std::function<std::optional<std::chrono::milliseconds>()> stopped_lately = {};
};

/// The shards of each table, by shard number.
using table_shards = std::vector<std::vector<msg::module_ref>>;

/// What the loss of a member means for the run.
struct verdict {
  enum class kind {
    harmless,  ///< it does not matter, or a further report will follow
    fatal,     ///< the run ends with `why`
    doubtful,  ///< the run ends with `why` unless a better reason comes within a moment
  };
  kind what = kind::harmless;
  caf::error why = {};
};

/// The word for a member in messages to users.
inline const char* role_name(bool trains) { return trains ? "trainer" : "server"; }

/// Belongs to the master.
class membership {
 public:
  enum class state : std::uint8_t { early, open, closed };

  /// A process of the run.
  struct node {
    msg::peer_node what;
    std::string user_name;
    std::string host;
    std::uint64_t pid = 0;
    std::string session;
    msg::node_actor handle;
    msg::connected links;
  };

  /// `rules`: members come from other processes; null: they are in this process. `note` may be null; it is called with
  /// one line for each member that joins or leaves.
  void start(std::optional<node_rules> rules, std::function<void(const std::string&)> note);
  /// The run is known. Sets how many members it has (trainer r has part r % `parts` of its network; each `slices`
  /// neighbours need each other within every pass), and the settings that joining members must agree with.
  void open(std::uint32_t servers, std::uint32_t trainers, std::uint32_t parts, std::uint32_t slices,
            msg::arguments settings);
  /// The run begins.
  void close();

  bool is_remote() const { return rules_.has_value(); }
  const std::optional<node_rules>& rules() const { return rules_; }

  // -- joining --------------------------------------------------------------------

  /// Returns the rank given to `sender`'s server or trainer, or why it is refused.
  caf::expected<std::uint32_t> join(const msg::join_server& offer, const caf::strong_actor_ptr& sender);
  caf::expected<std::uint32_t> join(const msg::join_trainer& offer, const caf::strong_actor_ptr& sender);
  /// Returns the node made for a process, or why it is refused. `step`: how far the run is, if it has begun.
  caf::expected<msg::peer_node> join(const msg::join_node& offer, std::uint64_t step);
  /// The node has its data links. Returns an error if it lacks some that it needs.
  caf::error linked(std::uint32_t number, msg::connected links);
  /// If all trainers are in this process: sets each part's allreduce group, by part.
  void set_groups(std::vector<msg::allreduce_actor> groups);

  /// Assigns each free rank to a node of its role, in turn; slices of a stage to a host with other slices of it.
  /// Returns the assigned ranks by node number; an error names the ranks if their role has no node.
  caf::expected<std::map<std::uint32_t, std::vector<std::uint32_t>>> rehost();

  /// Returns the numbers of the nodes that are not needed if the run continues with this number of trainers.
  std::vector<std::uint32_t> surplus(std::uint32_t trainers) const;

  /// Returns whether every member that the run needs has joined.
  bool complete() const;
  /// Returns an error unless exactly these numbers of members have joined.
  caf::error check(std::uint32_t servers, std::uint32_t trainers) const;

  // -- members --------------------------------------------------------------------

  const std::vector<msg::parameter_server_actor>& servers() const { return servers_; }  ///< by rank; null: absent
  const std::vector<msg::trainer_actor>& trainers() const { return trainers_; }         ///< by rank; null: absent
  const std::map<std::uint32_t, node>& nodes() const { return nodes_; }                 ///< by number
  /// The groups of this process's trainers, or of a node's, by part.
  std::vector<msg::part_group> groups() const;
  static std::vector<msg::part_group> groups_of(const node& which);
  /// The addresses of all servers, trainers and groups.
  std::vector<caf::actor_addr> addresses() const;

  /// Returns the servers of these tables as a trainer addresses them: directly, or by their proxies in its process.
  table_shards as_seen_by(std::uint32_t trainer, table_shards tables) const;
  /// Returns all servers as a trainer addresses them.
  std::vector<msg::server_place> servers_of(std::uint32_t trainer) const;
  msg::part_group group_of(std::uint32_t trainer) const;

  /// Returns the actor number of a member or node.
  std::uint32_t number_of(const caf::actor_addr& address) const;
  /// Returns a member's name for error lines: `trainer 1 (host a, pid 17)` for `trainer 1`.
  std::string full_name(const std::string& name) const;
  /// Returns the name of a member or node for error lines.
  std::string who_is(const caf::actor_addr& address) const;

  // -- leaving: each loss is assessed once ---------------------------------------------

  /// An actor that the master monitors has ended. A device's failure is best reported by a trainer, which uses the
  /// device and knows the step: an allreduce group or server may notice the failure first, but its report waits for the
  /// trainer's.
  verdict assess(const caf::down_msg& down, std::uint64_t step);
  /// Returns for how long this process was stopped, if the pause may just have cost it members.
  std::optional<std::chrono::milliseconds> own_stop() const {
    return rules_->stopped_lately ? rules_->stopped_lately() : std::nullopt;
  }
  /// A control connection has ended. `own_stop`: the result of `own_stop()` when that report came.
  verdict assess(const msg::node_lost& word, std::uint64_t step, std::optional<std::chrono::milliseconds> own_stop);
  /// A node has lost its link to another node.
  verdict assess(const msg::link_lost& word, std::uint64_t step) const;
  /// `who` has answered a request of the run with an error, or not at all.
  verdict assess(const caf::error& error, const caf::actor_addr& who, caf::string_view question,
                 std::uint64_t step) const;

 private:
  struct member {
    caf::actor_addr address;
    std::string name;
    bool trains = false;
  };

  void enter(state next);
  template <class Handle>
  caf::expected<std::uint32_t> place(std::vector<Handle>& members, bool trains, const Handle& one, std::uint32_t rank,
                                     const caf::strong_actor_ptr& sender);
  const node* node_of(bool trains, std::uint32_t rank) const;
  caf::expected<std::vector<std::uint32_t>> check_offer(const msg::join_node& offer, std::uint64_t step) const;
  caf::expected<std::vector<std::uint32_t>> free_ranks(const msg::join_node& offer) const;
  int distance(std::uint32_t trainer, const std::string& host) const;
  void tell_stages_apart() const;
  void leave(std::uint32_t number, const std::string& why);
  /// Returns whether the number of trainers may change.
  bool is_elastic() const;
  std::string with_advice(const std::string& text) const;

  state state_ = state::early;
  std::optional<node_rules> rules_;
  std::function<void(const std::string&)> note_;
  std::uint32_t wanted_servers_ = 0;
  std::uint32_t wanted_trainers_ = 0;
  std::uint32_t parts_ = 1;
  std::uint32_t slices_ = 1;
  msg::arguments settings_;
  std::vector<msg::parameter_server_actor> servers_;
  std::vector<msg::trainer_actor> trainers_;
  std::vector<msg::allreduce_actor> groups_;  ///< by part; empty: they are in other processes
  std::vector<member> members_;
  std::map<std::uint32_t, node> nodes_;
  std::uint32_t next_node_ = 0;
  std::map<std::pair<bool, std::uint32_t>, std::uint32_t> incarnations_;  ///< of each rank, by (trains, rank)
};

}  // namespace troupe::actors
