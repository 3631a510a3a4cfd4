#include "cluster/nodes/node_actor.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "actors/common/actor_name.hpp"
#include "actors/common/failure.hpp"
#include "actors/common/inline_execution.hpp"
#include "actors/common/traced_system.hpp"
#include "actors/server/parameter_server.hpp"
#include "base/host.hpp"
#include "cluster/nodes/diagnosis.hpp"
#include "model/checkpoint/names.hpp"
#include "model/output_file.hpp"
#include "protocol/errors.hpp"
#include "protocol/message_types.hpp"

namespace troupe::nodes {

namespace {

/// Returns the entry of `rank`; grows `by_rank` as needed.
template <class T>
T& entry_of(std::uint32_t rank, std::vector<T>& by_rank) {
  if (by_rank.size() <= rank) by_rank.resize(std::size_t{rank} + 1);
  return by_rank[rank];
}

}  // namespace

void node_state::start(dependencies all) {
  all_ = std::move(all);
  all_.watch->watcher(caf::actor_cast<caf::strong_actor_ptr>(self_),
                      [this](const master_watch::loss& what) { master_lost(what); });
  const node_options& options = all_.options;
  msg::join_node offer{.head = msg::header_source(0, actors::client_number).next(0, 0),
                       .trains = options.trains,
                       .count = options.count,
                       .rank = options.rank.value_or(msg::any_rank),
                       .name = options.name,
                       .host = host_name(),
                       .pid = static_cast<std::uint64_t>(::getpid()),
                       .address = links::to_string(all_.data_address),
                       .session = all_.session,
                       .job = options.expected_job.value_or(std::vector<model::setting>()),
                       .node = self_};
  self_->request(all_.master, options.network.request_timeout, std::move(offer))
      .then([this](const msg::admitted& place) { admitted_as(place); },
            [this](const caf::error& error) {
              const bool input = error == protocol::errc::bad_input;
              // The previous attempt is not over, or its master has just ended.
              const bool early = error == protocol::errc::wrong_context || protocol::is_transient(error);
              end(failure(input   ? fault_kind::input
                          : early ? fault_kind::unreachable
                                  : fault_kind::run,
                          reason(error, protocol::message_name_v<msg::join_node>)));
            });
}

/// Describes why the master has not answered.
std::string node_state::reason(const caf::error& error, std::string_view question) const {
  if (!(error == caf::sec::request_timeout)) return protocol::describe(error);
  return fmt::format("the master ({}) did not answer {} within {} s; --request-timeout allows more",
                     links::to_string(all_.options.master), question,
                     static_cast<double>(all_.options.network.request_timeout.count()) / 1000);
}

/// Offers one of this process's actors to the master.
template <class Offer>
void node_state::offer(Offer what) {
  self_->request(all_.master, all_.options.network.request_timeout, std::move(what))
      .then([](const msg::joined&) {},
            [this](const caf::error& error) {
              end(run_fault(reason(error, protocol::message_name_v<Offer>)), protocol::is_transient(error));
            });
}

/// Adopts the ranks and devices that the master assigns to this process.
void node_state::admitted_as(const msg::admitted& place) {
  place_ = place;
  is_admitted_ = true;
  trace.start(self_, self_->system(), place.run, actors::node_number(place.node), fmt::format("node {}", place.node),
              place.incarnation);
  if (auto* recorder = actors::recorder_of(self_->system()))
    recorder->set_run(place.run, place.node, place.incarnation);
  const bool trains = all_.options.trains;
  actors::compute_devices& devices = all_.options.devices;
  devices.follow({place.on_devices, place.device_reason});
  if (all_.devices != nullptr) *all_.devices = devices;
  host(place.ranks, msg::id_of(place.head));
  if (!all_.options.on_note) return;
  const bool on_devices = trains ? devices.trainers : devices.servers;
  const bool by_advice = (trains ? devices.trainers_by_default : devices.servers_by_default) && !devices.reason.empty();
  all_.options.on_note(fmt::format("joined as {} {}{}{}; waiting for the others", trains ? "trainer" : "server",
                                   fmt::join(place.ranks, ", "),
                                   on_devices  ? actors::places_of(devices, place.ranks)
                                   : by_advice ? " on the processor"
                                               : "",
                                   by_advice ? ", as of --device auto: " + devices.reason : ""));
}

/// Starts these servers or trainers and offers them to the master.
void node_state::host(const std::vector<std::uint32_t>& ranks, msg::message_id cause) {
  for (const std::uint32_t rank : ranks) {
    if (all_.options.trains) {
      auto made = all_.options.make_trainer(self_->system(), place_.run, rank, place_.servers);
      actors_.push_back(caf::actor_cast<caf::actor>(made.actor));
      if (made.send_peers)
        all_.data->actors().add(actors::trainer_number(rank, place_.servers),
                                caf::actor_cast<caf::strong_actor_ptr>(made.actor));
      offer(msg::join_trainer{trace.next(0, cause), made.actor, rank});
      trainers_.emplace(rank, std::move(made));
    } else {
      const auto made =
          actors::spawn_computing(*self_, all_.options.devices.servers, actors::parameter_server, place_.run, rank);
      servers_.push_back(made);
      actors_.push_back(caf::actor_cast<caf::actor>(made));
      all_.data->actors().add(actors::server_number(rank), caf::actor_cast<caf::strong_actor_ptr>(made));
      offer(msg::join_server{trace.next(0, cause), made, rank});
    }
  }
}

void node_state::handle(const msg::host_ranks& order) {
  place_.ranks.insert(place_.ranks.end(), order.ranks.begin(), order.ranks.end());
  host(order.ranks, msg::id_of(order.head));
  if (all_.options.on_note)
    all_.options.on_note(fmt::format("also hosts {}{} {}, which no process offered",
                                     all_.options.trains ? "trainer" : "server", order.ranks.size() > 1 ? "s" : "",
                                     fmt::join(order.ranks, ", ")));
}

caf::result<msg::committed> node_state::handle(const msg::expect_peers& order) {
  peers_ = order.peers;
  parts_ = order.parts;
  if (auto error = try_to_save(order.save_folder)) return error;
  all_.data->expect(
      {place_.run, place_.node, place_.incarnation, order.servers_talk}, order.peers,
      [this, me = caf::actor_cast<caf::weak_actor_ptr>(self_)](std::uint32_t peer, const std::string& why) {
        actors::run_in(me, [this, peer, why] { peer_lost(peer, why); });
      });
  return msg::committed{trace.next(0, msg::id_of(order.head))};
}

/// Tests now whether servers can write checkpoints: the first one may be hours away.
caf::error node_state::try_to_save(const std::string& folder) const {
  if (all_.options.trains || folder.empty() || place_.ranks.empty()) return {};
  const auto tried = model::try_folder(folder, model::table_file_name(0, place_.ranks.front(), place_.servers));
  if (tried) return {};
  const auto me = std::ranges::find(peers_, place_.node, &msg::peer_node::node);
  return protocol::make_failure(protocol::errc::bad_input,
                                "{} cannot write where the run saves: {}; --save takes a folder that the "
                                "master and all hosts with servers share, under one path",
                                me == peers_.end() ? name : me->name, tried.error().message);
}

caf::result<msg::connected> node_state::handle(const msg::connect_peers& order) {
  connected_ = self_->make_response_promise<msg::connected>();  // kept here: its copies are not thread-safe
  all_.data->connect(
      [this, me = caf::actor_cast<caf::strong_actor_ptr>(self_), head = order.head](const std::string& problem) {
        actors::run_in(me, [this, head, problem] {
          if (problem.empty())
            connected_.deliver(links_to_peers(head));
          else
            connected_.deliver(protocol::make_failure(protocol::errc::peer_failed, problem));
        });
      });
  return connected_;
}

/// Makes proxies for the servers, and the allreduce groups, for this process's trainers.
msg::connected node_state::links_to_peers(const msg::header& asked) {
  msg::connected made{trace.next(0, msg::id_of(asked)), {}, {}};
  if (!all_.options.trains) {
    send_servers_their_peers();
    return made;
  }
  for (const msg::peer_node& peer : peers_)
    if (!peer.trains)
      for (const std::uint32_t rank : peer.ranks)
        entry_of(rank, made.servers) =
            all_.data->link_to(peer.node)->proxy<msg::parameter_server_actor>(actors::server_number(rank));
  introduce_trainers();
  for (std::uint32_t part = 0; part < parts_; ++part) {
    auto layout = group_layout_of(part);
    if (!layout) continue;
    const std::uint32_t number = layout->number();
    const auto group = self_->spawn(actors::allreduce_group, place_.run, std::move(*layout));
    actors_.push_back(caf::actor_cast<caf::actor>(group));
    all_.data->actors().add(number, caf::actor_cast<caf::strong_actor_ptr>(group));
    if (part > 0) {
      made.other_parts.push_back({part, number, group});
    } else {
      made.group = group;
      made.group_number = number;
    }
  }
  return made;
}

/// Returns how a part's ranks are spread over the processes; null if this process has none of them. For part s, the
/// n-th of p processes with trainers has group number s x p + n.
std::optional<actors::group_layout> node_state::group_layout_of(std::uint32_t part) {
  actors::group_layout layout;
  layout.timeout = all_.options.network.request_timeout;
  layout.part = part;
  layout.parts = parts_;
  const auto processes = static_cast<std::uint32_t>(std::ranges::count_if(peers_, &msg::peer_node::trains));
  bool is_here = false;
  std::uint32_t process = 0;
  for (const msg::peer_node& peer : peers_) {
    if (!peer.trains) continue;
    const std::uint32_t number = actors::group_sender(part * processes + process++);
    const auto place = static_cast<std::uint32_t>(layout.groups.size());
    bool has_some = false;
    for (const std::uint32_t rank : peer.ranks) {
      if (rank % parts_ != part) continue;
      entry_of(rank / parts_, layout.process_of_rank) = place;
      has_some = true;
    }
    if (!has_some) continue;
    const bool is_me = peer.node == place_.node;
    const data_link_ptr wire = all_.data->link_to(peer.node);
    is_here = is_here || is_me;
    if (is_me) layout.me = place;
    layout.groups.push_back(is_me ? msg::allreduce_actor() : wire->proxy<msg::allreduce_actor>(number));
    layout.senders.push_back(is_me ? caf::actor_addr() : wire->sender());
    layout.numbers.push_back(number);
  }
  if (!is_here) return std::nullopt;
  if (processes == 1 && part == 0) layout.numbers.clear();
  return layout;
}

/// Gives this process's trainers the handles of all others.
void node_state::introduce_trainers() {
  actors::trainer_peers all;
  for (const msg::peer_node& peer : peers_) {
    if (!peer.trains) continue;
    const data_link_ptr wire = all_.data->link_to(peer.node);
    const bool is_me = peer.node == place_.node;
    for (const std::uint32_t rank : peer.ranks) {
      entry_of(rank, all.of_rank) =
          is_me ? msg::peer_actor() : wire->proxy<msg::peer_actor>(actors::trainer_number(rank, place_.servers));
      entry_of(rank, all.senders) = is_me ? caf::actor_addr() : wire->sender();
    }
  }
  actors::introduce(trainers_, std::move(all));
}

/// Makes each server accept a trainer's messages only from the link to that trainer's process, and gives it the handles
/// of the other servers.
void node_state::send_servers_their_peers() {
  actors::trainer_origins origins{place_.servers, {}, parts_};
  std::vector<msg::parameter_server_actor> servers(place_.servers);
  for (const msg::peer_node& peer : peers_) {
    const data_link_ptr wire = all_.data->link_to(peer.node);
    for (std::size_t i = 0; i < peer.ranks.size(); ++i) {
      const std::uint32_t rank = peer.ranks[i];
      if (peer.trains && rank % parts_ == 0)  // only the first part of a replica uses rows
        entry_of(rank / parts_, origins.of_rank) = wire->sender();
      else if (peer.trains)
        continue;
      else if (peer.node == place_.node)
        servers.at(rank) = servers_[i];
      else if (wire)
        servers.at(rank) = wire->proxy<msg::parameter_server_actor>(actors::server_number(rank));
    }
  }
  for (const msg::parameter_server_actor& one : servers_) {
    actors::send_origins(one, origins);
    actors::send_to_servers(one, servers);
  }
}

void node_state::peer_lost(std::uint32_t node, const std::string& why) {
  if (!ended_) self_->send(all_.master, msg::link_lost{trace.next(step, 0), place_.node, node, why});
}

void node_state::master_lost(const master_watch::loss& what) {
  if (ended_) return;
  const std::uint64_t at_step = all_.data->newest_step();
  const std::string when = at_step > 0 ? fmt::format(" in step {}", at_step) : "";
  const std::string advice = place_.resume.empty() ? "" : "; " + place_.resume;
  const fault_kind kind = is_admitted_ ? fault_kind::run : fault_kind::unreachable;
  const std::string master = links::to_string(all_.options.master);
  const std::string line =
      what.own_stop ? fmt::format(
                          "the master ({}) took this process for dead{}: it (pid {}) was stopped for {:.1f} s; a "
                          "longer --dead-after lets it wait",
                          master, when, ::getpid(), static_cast<double>(what.own_stop->count()) / 1000)
                    : fmt::format("the master ({}) is gone{}: {}", master, when, what.why);
  end(failure(kind, line + advice), true);
}

void node_state::fail(const caf::error& error) { end(run_fault(protocol::describe(error))); }

void node_state::handle(const msg::run_over& word) {
  if (word.again) return end(run_fault(word.words), true, word.done);
  if (word.done) return end({});
  end(run_fault(all_.options.leader_reports ? std::string() : word.words));
}

/// `again`: another attempt may follow. `as_wished`: this one has not failed.
void node_state::end(result<void> outcome, bool again, bool as_wished) {
  if (std::exchange(ended_, true)) return;
  all_.watch->forget();
  for (const caf::actor& one : actors_) self_->send_exit(one, caf::exit_reason::user_shutdown);
  all_.on_end({std::move(outcome), std::chrono::milliseconds(again ? place_.rejoin_ms : 0), as_wished});
  self_->quit();
}

caf::result<msg::actor_status> node_state::handle(const msg::actor_query& query) {
  msg::actor_status now{trace.next(step, msg::id_of(query.head)), name, {}, all_.data->newest_step(), {}, {}};
  for (const msg::peer_node& peer : peers_) {
    const data_link_ptr wire = all_.data->link_to(peer.node);
    if (!wire) continue;
    const msg::queue_status queue{peer.name, wire->waiting_for_credit(), wire->queued_bytes(), 0};
    if (queue.messages > 0 || queue.bytes > 0) now.queues.push_back(queue);
  }
  return now;
}

caf::result<msg::evidence> node_state::handle(const msg::evidence_query& query) {
  auto found = evidence_of(actors::recorder_of(self_->system()), query.boot);
  found.head = trace.next(step, msg::id_of(query.head));
  return found;
}

msg::node_actor::behavior_type node(node_state::pointer self, node_state::dependencies all) {
  self->state.start(std::move(all));
  actors::fail_on_exceptions(self, [self](const caf::error& error) { self->state.fail(error); });
  return {
      actors::recorded<msg::expect_peers>(self), actors::recorded<msg::connect_peers>(self),
      actors::recorded<msg::host_ranks>(self),   actors::recorded<msg::run_over>(self),
      actors::recorded<msg::actor_query>(self),  actors::recorded<msg::evidence_query>(self),
  };
}

}  // namespace troupe::nodes
