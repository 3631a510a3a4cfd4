#include "actors/master/membership.hpp"

#include <unistd.h>

#include <algorithm>

#include "actors/common/actor_name.hpp"
#include "actors/common/failure.hpp"
#include "base/assert.hpp"
#include "base/mapped.hpp"
#include "protocol/message_types.hpp"

namespace troupe::actors {

namespace {

/// Returns a name such as `trainer 0 (host a, pid 17)` or `the process of trainers 0, 1 (host a, pid 17)`, singular in
/// any sentence.
std::string name_of(const msg::join_node& offer, const std::vector<std::uint32_t>& ranks) {
  const bool several = ranks.size() > 1;
  return fmt::format("{}{}{} {} (host {}, pid {})", several ? "the process of " : "", role_name(offer.trains),
                     several ? "s" : "", fmt::join(ranks, ", "), offer.host, offer.pid);
}

template <class Handle>
std::uint32_t first_free(const std::vector<Handle>& taken) {
  const auto free = std::ranges::find_if(taken, [](const Handle& one) { return one == nullptr; });
  return static_cast<std::uint32_t>(free - taken.begin());
}

/// A process that ends closes its connections. If the network has cut it off, its connection falls silent or fails.
const char* what_became_of_it(const std::string& why) {
  return why.empty() || why.starts_with("its connection was ") ? "died" : "lost its connection";
}

verdict fatal(caf::error why) { return {verdict::kind::fatal, std::move(why)}; }
verdict doubtful(std::string text) {
  return {verdict::kind::doubtful, make_failure(errc::peer_failed, std::move(text))};
}

}  // namespace

void membership::start(std::optional<node_rules> rules, std::function<void(const std::string&)> note) {
  rules_ = std::move(rules);
  note_ = note ? std::move(note) : [](const std::string&) {};
}

void membership::enter(state next) {
  TROUPE_ASSERT((state_ == state::early && next == state::open) || (state_ == state::open && next == state::closed));
  state_ = next;
}

void membership::open(std::uint32_t servers, std::uint32_t trainers, std::uint32_t parts, std::uint32_t slices,
                      msg::arguments settings) {
  enter(state::open);
  wanted_servers_ = servers;
  wanted_trainers_ = trainers;
  parts_ = parts;
  slices_ = slices;
  settings_ = std::move(settings);
}

void membership::close() {
  enter(state::closed);
  tell_stages_apart();
}

// -- actors that join -----------------------------------------------------------

caf::expected<std::uint32_t> membership::join(const msg::join_server& offer, const caf::strong_actor_ptr& sender) {
  return place(servers_, false, offer.server, offer.rank, sender);
}

caf::expected<std::uint32_t> membership::join(const msg::join_trainer& offer, const caf::strong_actor_ptr& sender) {
  return place(trainers_, true, offer.trainer, offer.rank, sender);
}

template <class Handle>
caf::expected<std::uint32_t> membership::place(std::vector<Handle>& members, bool trains, const Handle& one,
                                               std::uint32_t rank, const caf::strong_actor_ptr& sender) {
  if (state_ == state::closed)
    return make_failure(errc::wrong_context, "the run has begun: no {} can join any more", role_name(trains));
  if (rank == msg::any_rank) rank = first_free(members);
  const node* home = node_of(trains, rank);
  if (rules_ && (home == nullptr || home->handle.address() != sender))  // only the node with that rank may
    return make_failure(errc::bad_input, "{} {} was not given to this process", role_name(trains), rank);
  members.resize(std::max<std::size_t>(members.size(), std::size_t{rank} + 1));
  members[rank] = one;
  // In error lines, the name of a server or trainer in another process includes that process.
  const std::string process = home == nullptr ? "" : home->what.name.substr(home->what.name.find(" ("));
  members_.push_back({one.address(), fmt::format("{} {}{}", role_name(trains), rank, process), trains});
  return rank;
}

void membership::set_groups(std::vector<msg::allreduce_actor> groups) {
  groups_ = std::move(groups);
  for (const msg::allreduce_actor& one : groups_) members_.push_back({one.address(), "allreduce"});
}

bool membership::complete() const {
  const auto all_of = [](const auto& members, std::size_t wanted) {
    return members.size() == wanted && std::ranges::none_of(members, [](const auto& one) { return one == nullptr; });
  };
  return all_of(servers_, wanted_servers_) && all_of(trainers_, wanted_trainers_);
}

caf::error membership::check(std::uint32_t servers, std::uint32_t trainers) const {
  if (servers_.size() == servers && trainers_.size() == trainers) return {};
  return make_failure(errc::bad_input, "{} servers and {} trainers have joined, the job asks for {} and {}",
                      servers_.size(), trainers_.size(), servers, trainers);
}

// -- nodes that join ------------------------------------------------------------

caf::expected<msg::peer_node> membership::join(const msg::join_node& offer, std::uint64_t step) {
  auto ranks = check_offer(offer, step);
  if (!ranks) {
    note_(fmt::format("a {} (host {}, pid {}) was not accepted: {}", role_name(offer.trains), offer.host, offer.pid,
                      protocol::describe(ranks.error())));
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
  note_(fmt::format("{} has joined", made.what.name));
  return made.what;
}

/// Returns the ranks given to an offer, or why it is refused.
caf::expected<std::vector<std::uint32_t>> membership::check_offer(const msg::join_node& offer,
                                                                  std::uint64_t step) const {
  const auto refused = [](std::string why) { return make_failure(errc::bad_input, std::move(why)); };
  if (!rules_) return refused("this master takes no members from other processes");
  TROUPE_ASSERT(state_ != state::early);
  if (state_ == state::closed)
    return make_failure(errc::wrong_context, "the run has begun (step {}): no process can join any more", step);
  if (!offer.node) return refused("it is gone already");
  if (rules_->own_members && offer.rank == msg::any_rank)
    return refused("this run starts its members itself; use 'troupe master' for one that others may join");
  const auto same_name =
      std::ranges::find_if(nodes_, [&](const auto& one) { return one.second.user_name == offer.name; });
  if (!offer.name.empty() && same_name != nodes_.end())
    return refused(fmt::format("--name {}: is taken by {}; choose another", offer.name, same_name->second.what.name));
  for (const auto& [key, value] : offer.job) {
    if (is_elastic() && (key == "trainers" || key == "memberships")) continue;
    const auto known = std::ranges::find(settings_, key, &msg::arguments::value_type::first);
    if (known != settings_.end() && known->second == value) continue;
    return refused(fmt::format("the job differs from the master's: --{} is {} there and {} at the master", key, value,
                               known == settings_.end() ? "not part of it" : known->second));
  }
  return free_ranks(offer);
}

/// A process with trainers must have a proxy for every server, and a group for each of their parts.
caf::error membership::linked(std::uint32_t number, msg::connected links) {
  TROUPE_ASSERT(state_ == state::closed);
  node& one = nodes_.at(number);
  one.links = std::move(links);
  for (const msg::part_group& its : groups_of(one))
    members_.push_back({its.group.address(), "allreduce of " + one.what.name});
  if (!one.what.trains) return {};
  const auto count = std::ranges::count_if(one.links.servers, [](const auto& server) { return server != nullptr; });
  const bool has_all = one.links.servers.size() == wanted_servers_ && count == wanted_servers_;
  const bool has_groups =
      std::ranges::all_of(one.what.ranks, [&](std::uint32_t rank) { return group_of(rank).group != nullptr; });
  if (has_all && has_groups) return {};
  return make_failure(errc::malformed, "{} reports links to {} servers{}, the run has {}", one.what.name, count,
                      has_groups ? "" : " and no group", wanted_servers_);
}

// -- members ----------------------------------------------------------------------

const membership::node* membership::node_of(bool trains, std::uint32_t rank) const {
  for (const auto& [number, one] : nodes_)
    if (one.what.trains == trains && std::ranges::find(one.what.ranks, rank) != one.what.ranks.end()) return &one;
  return nullptr;
}

std::vector<caf::actor_addr> membership::addresses() const { return mapped(members_, &member::address); }

table_shards membership::as_seen_by(std::uint32_t trainer, table_shards tables) const {
  if (const node* home = node_of(true, trainer))
    for (auto& shards : tables)
      for (msg::module_ref& shard : shards) shard.server = home->links.servers.at(shard.rank);
  return tables;
}

std::vector<msg::server_place> membership::servers_of(std::uint32_t trainer) const {
  const node* home = node_of(true, trainer);
  std::vector<msg::server_place> all;
  for (const auto& server : home == nullptr ? servers_ : home->links.servers)
    all.push_back({static_cast<std::uint32_t>(all.size()), server});
  return all;
}

std::vector<msg::part_group> membership::groups() const {
  std::vector<msg::part_group> all;
  for (std::uint32_t part = 0; part < groups_.size(); ++part)
    all.push_back({part, part == 0 ? group_number : group_sender(part), groups_[part]});
  return all;
}

std::vector<msg::part_group> membership::groups_of(const node& which) {
  std::vector<msg::part_group> all;
  if (which.links.group) all.push_back({0, which.links.group_number, which.links.group});
  all.insert(all.end(), which.links.other_parts.begin(), which.links.other_parts.end());
  return all;
}

/// The group of a trainer's part, in its process, or null.
msg::part_group membership::group_of(std::uint32_t trainer) const {
  const node* home = node_of(true, trainer);
  for (const msg::part_group& one : home == nullptr ? groups() : groups_of(*home))
    if (one.part == trainer % parts_) return one;
  return {};
}

std::uint32_t membership::number_of(const caf::actor_addr& address) const {
  for (std::uint32_t rank = 0; rank < servers_.size(); ++rank)
    if (servers_[rank].address() == address) return server_number(rank);
  for (std::uint32_t rank = 0; rank < trainers_.size(); ++rank)
    if (trainers_[rank].address() == address) return trainer_number(rank, wanted_servers_);
  for (const auto& [number, one] : nodes_)
    if (one.handle.address() == address) return node_number(number);
  return client_number;
}

std::string membership::full_name(const std::string& name) const {
  for (const member& one : members_)
    if (one.name.starts_with(name + " (")) return one.name;
  return name;
}

std::string membership::who_is(const caf::actor_addr& address) const {
  std::string who = "a member";
  for (const member& one : members_)
    if (one.address == address) who = one.name;
  for (const auto& [number, one] : nodes_)
    if (one.handle.address() == address) who = one.what.name;
  return who;
}

// -- losses -------------------------------------------------------------------------

/// The death of a member ends the run. If another actor's death was the cause, the verdict waits for that actor's
/// report.
verdict membership::assess(const caf::down_msg& down, std::uint64_t step) {
  if (state_ != state::closed) {
    const auto known =
        std::ranges::find_if(nodes_, [&](const auto& one) { return one.second.handle.address() == down.source; });
    if (known != nodes_.end()) leave(known->first, "it has ended");
    return {};
  }
  const auto who = std::ranges::find(members_, down.source, &member::address);
  if (who == members_.end()) return {};  // a node, whose connection reports more, or a member that left before the run
  const bool is_ours = down.reason.category() == caf::type_id_v<protocol::errc>;
  if (is_ours && down.reason == errc::device_failed && !who->trains) return {verdict::kind::doubtful, down.reason};
  if (is_ours && !protocol::is_secondary(down.reason)) return fatal(down.reason);
  if (is_ours) return doubtful(protocol::describe(down.reason));
  const bool is_cut_off = down.reason == caf::exit_reason::remote_link_unreachable;
  return doubtful(fmt::format("{}, step {}: {}", who->name, step,
                              is_cut_off ? "its connection was lost" : protocol::describe(down.reason)));
}

verdict membership::assess(const msg::node_lost& word, std::uint64_t step,
                           std::optional<std::chrono::milliseconds> own_stop) {
  const auto known = std::ranges::find_if(nodes_, [&](const auto& one) { return one.second.session == word.session; });
  const std::string why = word.why.empty() ? "it has ended" : word.why;
  if (known == nodes_.end()) {
    if (!word.why.empty()) note_(fmt::format("a process that had not joined is gone: {}", why));
    return {};
  }
  const std::string& who = known->second.what.name;
  if (state_ == state::closed && own_stop)
    return fatal(make_failure(
        errc::peer_failed,
        with_advice(fmt::format("the process that leads the run (pid {}) was stopped for {:.1f} s in step {}, and its "
                                "members left it; a longer --dead-after lets them wait",
                                ::getpid(), static_cast<double>(own_stop->count()) / 1000, step))));
  if (state_ == state::closed)
    return fatal(make_failure(errc::peer_failed, with_advice(fmt::format("{} {} in step {}: {}", who,
                                                                         what_became_of_it(word.why), step, why))));
  leave(known->first, why);
  return {};
}

verdict membership::assess(const msg::link_lost& word, std::uint64_t step) const {
  if (state_ != state::closed) return {};
  const auto name_of_node = [this](std::uint32_t number) {
    const auto known = nodes_.find(number);
    return known == nodes_.end() ? fmt::format("node {}", number) : known->second.what.name;
  };
  return doubtful(with_advice(fmt::format("the data link between {} and {} is gone in step {}: {}",
                                          name_of_node(word.node), name_of_node(word.peer), step, word.why)));
}

/// A receiver that has ended reports the reason in its down message. An error about a lost peer may be the only report.
verdict membership::assess(const caf::error& error, const caf::actor_addr& who, caf::string_view question,
                           std::uint64_t step) const {
  if (error == caf::sec::request_timeout && rules_)
    return fatal(make_failure(
        errc::timeout, "{}, step {}: did not answer {} within {} s; --request-timeout allows more", who_is(who), step,
        protocol::message_name(question), static_cast<double>(rules_->request_timeout.count()) / 1000));
  if (!protocol::is_secondary(error)) return fatal(error);
  return error == errc::peer_failed ? doubtful(protocol::describe(error)) : verdict{};
}

/// Removes a node and frees its ranks.
void membership::leave(std::uint32_t number, const std::string& why) {
  const msg::peer_node what = nodes_.at(number).what;
  nodes_.erase(number);
  const auto free = [this](auto& taken, std::uint32_t rank) {
    if (rank >= taken.size() || taken[rank] == nullptr) return;
    std::erase_if(members_, [&](const member& one) { return one.address == taken[rank].address(); });
    taken[rank] = nullptr;
  };
  for (const std::uint32_t rank : what.ranks) what.trains ? free(trainers_, rank) : free(servers_, rank);
  note_(fmt::format("{} has left: {}", what.name, why));
}

bool membership::is_elastic() const {
  return std::ranges::find(settings_, "elastic", &msg::arguments::value_type::first) != settings_.end();
}

std::string membership::with_advice(const std::string& text) const {
  return !rules_ || rules_->resume.empty() ? text : fmt::format("{}; {}", text, rules_->resume);
}

}  // namespace troupe::actors
