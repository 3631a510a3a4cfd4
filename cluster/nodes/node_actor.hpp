// The actor of a node: joins the run, starts the process's servers or trainers, makes its data links, and learns how
// the run ended.

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/collective/allreduce_group.hpp"
#include "actors/common/actor_trace.hpp"
#include "actors/trainer/trainer_maker.hpp"
#include "base/result.hpp"
#include "cluster/nodes/data_links.hpp"
#include "cluster/nodes/master_connection.hpp"
#include "cluster/nodes/node.hpp"
#include "protocol/messages.hpp"

namespace troupe::nodes {

class node_state {
 public:
  using pointer = msg::node_actor::stateful_pointer<node_state>;

  explicit node_state(pointer self) : self_(self) {}

  std::string name = "node";
  std::uint64_t step = 0;
  actors::actor_trace trace;

  /// What the actor needs from its process.
  struct dependencies {
    msg::master_actor master;
    std::shared_ptr<master_watch> watch;
    data_links* data = nullptr;
    node_options options;
    std::string session;
    links::endpoint data_address;
    /// Called once: the run is over, or this node cannot take part.
    std::function<void(node_end)> on_end;
    /// The devices in the settings of the actor system, which follow the master's advice before servers or trainers are
    /// made. May be null.
    actors::compute_devices* devices = nullptr;
  };

  void start(dependencies all);

  caf::result<msg::committed> handle(const msg::expect_peers& order);
  caf::result<msg::connected> handle(const msg::connect_peers& order);
  void handle(const msg::host_ranks& order);
  void handle(const msg::run_over& word);

  /// Ends the node: it cannot continue.
  void fail(const caf::error& error);
  caf::result<msg::actor_status> handle(const msg::actor_query& query);
  caf::result<msg::evidence> handle(const msg::evidence_query& query);

 private:
  template <class Offer>
  void offer(Offer what);
  std::string reason(const caf::error& error, std::string_view question) const;
  void admitted_as(const msg::admitted& place);
  void host(const std::vector<std::uint32_t>& ranks, msg::message_id cause);
  std::optional<actors::group_layout> group_layout_of(std::uint32_t part);
  msg::connected links_to_peers(const msg::header& asked);
  void introduce_trainers();
  void send_servers_their_peers();
  caf::error try_to_save(const std::string& folder) const;
  void master_lost(const master_watch::loss& what);
  void peer_lost(std::uint32_t node, const std::string& why);
  void end(result<void> outcome, bool again = false, bool as_wished = false);

  pointer self_;
  dependencies all_;
  msg::admitted place_;
  std::vector<msg::peer_node> peers_;
  std::uint32_t parts_ = 1;  // per replica of the network
  caf::typed_response_promise<msg::connected> connected_;
  std::vector<caf::actor> actors_;
  std::vector<msg::parameter_server_actor> servers_;        // subset of actors_
  std::map<std::uint32_t, actors::made_trainer> trainers_;  // subset of actors_, by rank
  bool is_admitted_ = false;
  bool ended_ = false;
};

/// The behavior of a node's actor, for spawn.
msg::node_actor::behavior_type node(node_state::pointer self, node_state::dependencies all);

}  // namespace troupe::nodes
