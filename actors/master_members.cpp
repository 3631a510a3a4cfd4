// The master's members: who may join, as what, how they find each other, and what it means when one is gone.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "actors/actor_name.hpp"
#include "actors/master.hpp"
#include "protocol/errors.hpp"
#include "protocol/messages.hpp"

namespace troupe {

namespace {

const char* role_name(bool trains) { return trains ? "trainer" : "server"; }

/// As in `trainer 0 (host a, pid 17)` or `the process of trainers 0, 1 (host a, pid 17)`: one thing in any sentence.
std::string name_of(const join_node& offer, const std::vector<std::uint32_t>& ranks) {
  const bool several = ranks.size() > 1;
  return fmt::format("{}{}{} {} (host {}, pid {})", several ? "the process of " : "", role_name(offer.trains),
                     several ? "s" : "", fmt::join(ranks, ", "), offer.host, offer.pid);
}

template <class Handle>
std::uint32_t first_free(const std::vector<Handle>& taken) {
  const auto free = std::ranges::find_if(taken, [](const Handle& one) { return one == nullptr; });
  return static_cast<std::uint32_t>(free - taken.begin());
}

template <class Handle>
void place(std::vector<Handle>& members, std::uint32_t rank, const Handle& one) {
  members.resize(std::max<std::size_t>(members.size(), std::size_t{rank} + 1));
  members[rank] = one;
}

}  // namespace

// -- actors that join -----------------------------------------------------------

void master_state::watch(const caf::actor_addr& address, std::string member_name) {
  self_->monitor(address);
  members_.push_back({address, std::move(member_name)});
}

/// A server or trainer as error lines name it: with its process, if it has one of its own.
std::string master_state::member_name(bool trains, std::uint32_t rank) const {
  const node* home = node_of(trains, rank);
  if (home == nullptr) return fmt::format("{} {}", role_name(trains), rank);
  return fmt::format("{} {}{}", role_name(trains), rank, home->what.name.substr(home->what.name.find(" (")));
}

caf::result<joined> master_state::handle(const join_server& offer) {
  if (running_) return make_failure(errc::wrong_context, "the run has begun: no server can join any more");
  const std::uint32_t rank = offer.rank == any_rank ? first_free(servers_) : offer.rank;
  if (auto error = check_place(false, rank)) return error;
  place(servers_, rank, offer.server);
  watch(offer.server.address(), member_name(false, rank));
  member_joined();
  return joined{trace.next(0, id_of(offer.head)), rank};
}

caf::result<joined> master_state::handle(const join_trainer& offer) {
  if (running_) return make_failure(errc::wrong_context, "the run has begun: no trainer can join any more");
  const std::uint32_t rank = offer.rank == any_rank ? first_free(trainers_) : offer.rank;
  if (auto error = check_place(true, rank)) return error;
  place(trainers_, rank, offer.trainer);
  watch(offer.trainer.address(), member_name(true, rank));
  member_joined();
  return joined{trace.next(0, id_of(offer.head)), rank};
}

/// Whether the sender of the message at hand may fill that place: only the node to which it was given.
caf::error master_state::check_place(bool trains, std::uint32_t rank) const {
  if (!rules_) return {};
  const node* home = node_of(trains, rank);
  if (home != nullptr && home->handle.address() == self_->current_sender()) return {};
  return make_failure(errc::bad_input, fmt::format("{} {} was not given to this process", role_name(trains), rank));
}

bool master_state::all_here() const {
  const auto complete = [](const auto& members, std::size_t wanted) {
    return members.size() == wanted && std::ranges::none_of(members, [](const auto& one) { return one == nullptr; });
  };
  return complete(servers_, job_.servers) && complete(trainers_, job_.trainers);
}

void master_state::member_joined() {
  if (ordered_ && !running_ && all_here()) begin();
}

// -- nodes that join ------------------------------------------------------------

/// The ranks that are given to an offer, or why it is refused.
caf::expected<std::vector<std::uint32_t>> master_state::check_offer(const join_node& offer) const {
  const auto refused = [](std::string why) { return make_failure(errc::bad_input, std::move(why)); };
  if (!rules_) return refused("this master takes no members from other processes");
  if (running_ || !promise_.pending())
    return make_failure(errc::wrong_context,
                        fmt::format("the run has begun (step {}): nobody can join any more", step));
  if (!offer.node) return refused("it is gone already");
  if (rules_->own_members && offer.rank == any_rank)
    return refused("this run starts its members itself; one that others may join is begun by 'troupe master'");
  const auto same_name =
      std::ranges::find_if(nodes_, [&](const auto& one) { return one.second.user_name == offer.name; });
  if (!offer.name.empty() && same_name != nodes_.end())
    return refused(fmt::format("--name {}: is taken by {}; choose another", offer.name, same_name->second.what.name));
  const auto mine = to_settings(job_);
  for (const auto& [key, value] : offer.job) {
    const auto known = std::ranges::find(mine, key, &setting::first);
    if (known != mine.end() && known->second == value) continue;
    return refused(fmt::format("the job differs from the master's: --{} is {} there and {} at the master", key, value,
                               known == mine.end() ? "not part of it" : known->second));
  }
  return free_ranks(offer);
}

/// The ranks that an offer gets: those from the one it asks for, or the lowest that are free.
caf::expected<std::vector<std::uint32_t>> master_state::free_ranks(const join_node& offer) const {
  const std::uint32_t wanted = offer.trains ? job_.trainers : job_.servers;
  std::vector<std::uint32_t> ranks;
  std::uint32_t taken = 0;
  for (std::uint32_t rank = 0; rank < wanted; ++rank) {
    const bool is_free = node_of(offer.trains, rank) == nullptr;
    taken += is_free ? 0 : 1;
    if (is_free && ranks.size() < offer.count && (offer.rank == any_rank || rank >= offer.rank)) ranks.push_back(rank);
  }
  if (offer.rank != any_rank && (ranks.empty() || ranks.front() != offer.rank))
    return make_failure(errc::bad_input,
                        fmt::format("{} {} is taken, or the job has none", role_name(offer.trains), offer.rank));
  if (ranks.size() < offer.count || offer.count == 0)
    return make_failure(errc::bad_input,
                        fmt::format("{} {}{} offered: the job asks for {}, {} have joined", offer.count,
                                    role_name(offer.trains), offer.count == 1 ? "" : "s", wanted, taken));
  return ranks;
}

caf::result<admitted> master_state::handle(const join_node& offer) {
  if (rules_ && !ordered_) {
    early_.emplace_back(offer, self_->make_response_promise<admitted>());
    return early_.back().second;
  }
  auto place = admit(offer);
  if (!place) return place.error();
  return std::move(*place);
}

/// The run is known now, to which those who came before it can be admitted.
void master_state::admit_early() {
  for (auto& [offer, promise] : std::exchange(early_, {})) {
    if (auto place = admit(offer))
      promise.deliver(std::move(*place));
    else
      promise.deliver(place.error());
  }
}

caf::expected<admitted> master_state::admit(const join_node& offer) {
  auto ranks = check_offer(offer);
  if (!ranks) {
    note(fmt::format("a {} (host {}, pid {}) was not let in: {}", role_name(offer.trains), offer.host, offer.pid,
                     describe(ranks.error())));
    return ranks.error();
  }
  const std::uint32_t number = next_node_++;
  std::uint32_t incarnation = 0;
  for (const std::uint32_t rank : *ranks) incarnation = std::max(incarnation, incarnations_[{offer.trains, rank}]++);
  node& made = nodes_[number];
  made.what = {number, incarnation, name_of(offer, *ranks), offer.trains, *ranks, offer.address};
  if (rules_->certificate_of) made.what.certificate = rules_->certificate_of(offer.session);
  made.user_name = offer.name;
  made.host = offer.host;
  made.pid = offer.pid;
  made.session = offer.session;
  made.handle = offer.node;
  self_->monitor(offer.node);  // its connection may have ended before its offer came
  note(fmt::format("{} has joined", made.what.name));
  return admitted{.head = trace.next(0, id_of(offer.head)),
                  .run = run_,
                  .node = number,
                  .incarnation = incarnation,
                  .ranks = *ranks,
                  .servers = job_.servers,
                  .resume = rules_->resume};
}

const master_state::node* master_state::node_of(bool trains, std::uint32_t rank) const {
  for (const auto& [number, one] : nodes_)
    if (one.what.trains == trains && std::ranges::find(one.what.ranks, rank) != one.what.ranks.end()) return &one;
  return nullptr;
}

void master_state::note(const std::string& line) const {
  if (observer_.on_note) observer_.on_note(line);
}

// -- nodes find each other --------------------------------------------------------

void master_state::connect_nodes() {
  phase_ = "connecting";
  std::vector<peer_node> peers;
  for (const auto& [number, one] : nodes_) peers.push_back(one.what);
  const std::string folder = folder_to_try();
  for (const auto& [number, one] : nodes_)
    ask<committed>(
        one.handle, expect_peers{trace.next(0, cause_), peers, folder}, [](committed&) {},
        &master_state::connect_links);
}

/// An empty folder beside the checkpoints: only who shares the folder with this process finds it.
std::string master_state::folder_to_try() {
  if (!checkpoints_.store) return {};
  const auto begun = checkpoints_.store->begin(steps_done_);
  return begun ? std::filesystem::absolute(*begun).string() : std::string();
}

void master_state::connect_links() {
  if (checkpoints_.store) checkpoints_.store->abandon();
  for (auto& [number, one] : nodes_)
    ask<connected>(
        one.handle, connect_peers{trace.next(0, cause_)},
        [this, &one = one](connected& made) {
          one.links = std::move(made);
          if (auto error = check_links(one)) return fail(error);
          if (one.links.group) watch(one.links.group.address(), "allreduce of " + one.what.name);
        },
        &master_state::make_tables);
}

/// A process with trainers must have what stands for every server in it, and a group.
caf::error master_state::check_links(const node& one) const {
  if (!one.what.trains) return {};
  const auto links = std::ranges::count_if(one.links.servers, [](const auto& server) { return server != nullptr; });
  const bool has_all = one.links.servers.size() == job_.servers && links == job_.servers;
  if (has_all && one.links.group) return {};
  return make_failure(errc::malformed, fmt::format("{} tells of links to {} servers{}, the run has {}", one.what.name,
                                                   links, one.links.group ? "" : " and of no group", job_.servers));
}

/// What a trainer takes for the servers: them, or what stands for them in its process.
std::vector<std::vector<module_ref>> master_state::tables_for(std::uint32_t trainer) const {
  auto tables = tables_;
  const node* home = node_of(true, trainer);
  if (home == nullptr) return tables;
  for (auto& shards : tables)
    for (module_ref& shard : shards) shard.server = home->links.servers.at(shard.rank);
  return tables;
}

allreduce_actor master_state::group_for(std::uint32_t trainer) const {
  const node* home = node_of(true, trainer);
  return home == nullptr ? group_ : home->links.group;
}

std::uint32_t master_state::group_number_for(std::uint32_t trainer) const {
  const node* home = node_of(true, trainer);
  return home == nullptr ? group_number : home->links.group_number;
}

// -- those who are gone -------------------------------------------------------------

/// A member's or node's actor number.
std::uint32_t master_state::number_of(const caf::actor_addr& address) const {
  for (std::uint32_t rank = 0; rank < servers_.size(); ++rank)
    if (servers_[rank].address() == address) return server_number(rank);
  for (std::uint32_t rank = 0; rank < trainers_.size(); ++rank)
    if (trainers_[rank].address() == address) return trainer_number(rank, job_.servers);
  for (const auto& [number, one] : nodes_)
    if (one.handle.address() == address) return node_number(number);
  return client_number;
}

/// A member or node as error lines name it.
std::string master_state::who_is(const caf::actor_addr& address) const {
  std::string who = "a member";
  for (const member& m : members_)
    if (m.address == address) who = m.name;
  for (const auto& [number, one] : nodes_)
    if (one.handle.address() == address) who = one.what.name;
  return who;
}

/// Who is asked and is silent.
caf::error master_state::unanswered(const caf::actor_addr& by, std::string_view question) const {
  const std::string who = who_is(by);
  return make_failure(
      errc::timeout, fmt::format("{}, step {}: did not answer {} within {} s; --request-timeout allows more", who, step,
                                 question, static_cast<double>(rules_->request_timeout.count()) / 1000));
}

/// The death of a member ends the run. If it only died of another's death, the other's own word is waited for.
void master_state::member_down(const caf::down_msg& down) {
  if (!running_) return node_down(down.source);
  const auto who =
      std::find_if(members_.begin(), members_.end(), [&down](const member& m) { return m.address == down.source; });
  if (who == members_.end()) return;  // of a node, whose connection tells more, or of one that left before the run
  const std::string& who_name = who->name;
  if (down.reason.category() == caf::type_id_v<errc> && !is_secondary(down.reason)) return fail(down.reason);
  const std::string ended = down.reason.category() == caf::type_id_v<errc>
                                ? describe(down.reason)
                                : fmt::format("{}, step {}: ended: {}", who_name, step, caf::to_string(down.reason));
  fail_later(ended);
}

/// Ends the run unless somebody tells a better reason before.
void master_state::fail_later(const std::string& words) {
  constexpr std::chrono::seconds grace{1};
  self_->run_delayed(grace, [this, words] { fail(make_failure(errc::peer_failed, words)); });
}

std::string master_state::with_advice(const std::string& words) const {
  return rules_->resume.empty() ? words : fmt::format("{}; {}", words, rules_->resume);
}

void master_state::handle(const node_lost& word) {
  const auto known = std::ranges::find_if(nodes_, [&](const auto& one) { return one.second.session == word.session; });
  const std::string why = word.why.empty() ? "it has ended" : word.why;
  if (known == nodes_.end()) {
    if (!word.why.empty()) note(fmt::format("a process that had not joined is gone: {}", why));
    return;
  }
  const std::string who = known->second.what.name;
  if (running_)
    return fail(make_failure(errc::peer_failed, with_advice(fmt::format("{} died in step {}: {}", who, step, why))));
  leave(known->first, why);
}

/// A node's actor is gone, and the run has not begun.
void master_state::node_down(const caf::actor_addr& source) {
  const auto known =
      std::ranges::find_if(nodes_, [&](const auto& one) { return one.second.handle.address() == source; });
  if (known != nodes_.end()) leave(known->first, "it has ended");
}

/// Its places are free again.
void master_state::leave(std::uint32_t number, const std::string& why) {
  const peer_node what = nodes_.at(number).what;
  nodes_.erase(number);
  const auto free = [this](auto& taken, std::uint32_t rank) {
    if (rank >= taken.size() || taken[rank] == nullptr) return;
    std::erase_if(members_, [&](const member& one) { return one.address == taken[rank].address(); });
    taken[rank] = nullptr;
  };
  for (const std::uint32_t rank : what.ranks) what.trains ? free(trainers_, rank) : free(servers_, rank);
  note(fmt::format("{} has left: {}", what.name, why));
}

void master_state::handle(const link_lost& word) {
  const auto name_of_node = [this](std::uint32_t number) {
    const auto known = nodes_.find(number);
    return known == nodes_.end() ? fmt::format("node {}", number) : known->second.what.name;
  };
  if (running_)
    fail_later(with_advice(fmt::format("the data link between {} and {} is gone in step {}: {}",
                                       name_of_node(word.node), name_of_node(word.peer), step, word.why)));
}

void master_state::handle(const give_up& word) {
  if (!running_)
    fail(make_failure(errc::peer_failed, fmt::format("{}; the run had not begun, so start it anew", word.words)));
}

void master_state::fail(const caf::error& error) {
  running_ = false;
  if (!promise_.pending()) return;
  promise_.deliver(error);
  tell_nodes(false, describe(error));
  end_members();
}

void master_state::tell_nodes(bool done, const std::string& words) {
  for (const auto& [number, one] : nodes_) self_->send(one.handle, run_over{trace.next(step, cause_), done, words});
}

/// Nodes end theirs themselves.
void master_state::end_members() {
  if (!rules_)
    for (const member& m : members_)
      if (auto strong = caf::actor_cast<caf::actor>(m.address))
        self_->send_exit(strong, caf::exit_reason::user_shutdown);
  self_->quit();
}

}  // namespace troupe
