// How ranks are assigned: to joining members, and to the nodes that host the ranks of lost members.

#include <algorithm>
#include <set>
#include <string>

#include "actors/common/failure.hpp"
#include "actors/master/membership.hpp"
#include "base/assert.hpp"

namespace troupe::actors {

/// Rates a host for a trainer's rank: 0, it has other slices of the rank's stage; 1, these slices are not assigned yet;
/// 2, they are on other hosts.
int membership::distance(std::uint32_t trainer, const std::string& host) const {
  int found = 1;
  const std::uint32_t first = trainer - trainer % slices_;
  for (std::uint32_t rank = first; slices_ > 1 && rank < first + slices_; ++rank)
    if (const node* home = node_of(true, rank)) {
      if (home->host == host) return 0;
      found = 2;
    }
  return found;
}

/// Returns the ranks from the requested one on, or the lowest free ranks; slices of a stage on one host if possible.
caf::expected<std::vector<std::uint32_t>> membership::free_ranks(const msg::join_node& offer) const {
  const std::uint32_t wanted = offer.trains ? wanted_trainers_ : wanted_servers_;
  std::vector<std::uint32_t> ranks;
  std::uint32_t taken = 0;
  for (std::uint32_t rank = 0; rank < wanted; ++rank) {
    const bool is_free = node_of(offer.trains, rank) == nullptr;
    taken += is_free ? 0 : 1;
    if (is_free && (offer.rank == msg::any_rank || rank >= offer.rank)) ranks.push_back(rank);
  }
  if (offer.trains && offer.rank == msg::any_rank)
    std::ranges::stable_sort(ranks, {}, [&](std::uint32_t rank) { return distance(rank, offer.host); });
  ranks.resize(std::min<std::size_t>(ranks.size(), offer.count));
  std::ranges::sort(ranks);
  if (offer.rank != msg::any_rank && (ranks.empty() || ranks.front() != offer.rank))
    return make_failure(errc::bad_input, "{} {} is taken, or the job has no such rank", role_name(offer.trains),
                        offer.rank);
  const bool may_be_fewer = is_elastic() && rules_->attempt > 1 && !ranks.empty();  // back for the remaining ranks
  if ((ranks.size() < offer.count && !may_be_fewer) || offer.count == 0)
    return make_failure(errc::bad_input, "{} {}{} offered: the job asks for {}, {} have joined", offer.count,
                        role_name(offer.trains), offer.count == 1 ? "" : "s", wanted, taken);
  return ranks;
}

caf::expected<std::map<std::uint32_t, std::vector<std::uint32_t>>> membership::rehost() {
  TROUPE_ASSERT(state_ == state::open);
  std::map<std::uint32_t, std::vector<std::uint32_t>> given;
  for (const bool trains : {false, true}) {
    std::vector<std::uint32_t> lost;
    for (std::uint32_t rank = 0; rank < (trains ? wanted_trainers_ : wanted_servers_); ++rank)
      if (node_of(trains, rank) == nullptr) lost.push_back(rank);
    std::vector<std::uint32_t> hosts;
    for (const auto& [number, one] : nodes_)
      if (one.what.trains == trains) hosts.push_back(number);
    if (hosts.empty() && !lost.empty())
      return make_failure(errc::peer_failed, "no process came for {}{} {} within {} s (--rejoin-timeout)",
                          role_name(trains), lost.size() > 1 ? "s" : "", fmt::join(lost, ", "),
                          static_cast<double>(rules_->rejoin_timeout.count()) / 1000);
    const std::uint32_t together = trains ? slices_ : 1;
    std::size_t turn = 0;
    for (std::size_t i = 0; i < lost.size(); ++i) {
      if (i > 0 && lost[i] / together != lost[i - 1] / together) ++turn;
      const auto beside = std::ranges::find_if(
          hosts, [&](std::uint32_t number) { return together > 1 && distance(lost[i], nodes_.at(number).host) == 0; });
      given[beside != hosts.end() ? *beside : hosts[turn % hosts.size()]].push_back(lost[i]);
    }
  }
  for (const auto& [number, ranks] : given) {
    node& one = nodes_.at(number);
    one.what.ranks.insert(one.what.ranks.end(), ranks.begin(), ranks.end());
    note_(fmt::format("{} hosts {}{} {} too", one.what.name, role_name(one.what.trains), ranks.size() > 1 ? "s" : "",
                      fmt::join(ranks, ", ")));
    const std::string process = one.what.name.substr(one.what.name.find(" ("));
    one.what.name =
        fmt::format("the process of {}s {}{}", role_name(one.what.trains), fmt::join(one.what.ranks, ", "), process);
  }
  return given;
}

std::vector<std::uint32_t> membership::surplus(std::uint32_t trainers) const {
  std::map<std::uint32_t, std::uint32_t> by_rank;  // node numbers by their lowest rank
  std::size_t kept = 0;
  std::vector<std::uint32_t> found;
  for (const auto& [number, one] : nodes_)
    if (one.what.trains) by_rank[std::ranges::min(one.what.ranks)] = number;
  for (const auto& [rank, number] : by_rank) {
    if (kept >= trainers) found.push_back(number);
    kept += nodes_.at(number).what.ranks.size();
  }
  return found;
}

/// Notes which stages have slices on several hosts.
void membership::tell_stages_apart() const {
  for (std::uint32_t first = 0; slices_ > 1 && rules_ && first < wanted_trainers_; first += slices_) {
    std::set<std::string> hosts;
    for (std::uint32_t rank = first; rank < first + slices_; ++rank)
      if (const node* home = node_of(true, rank)) hosts.insert(home->host);
    if (hosts.size() > 1)
      note_(
          fmt::format("trainers {} to {} share layers (--tensor-parallel {}) and are on hosts {}: every pass waits for "
                      "the network between them",
                      first, first + slices_ - 1, slices_, fmt::join(hosts, ", ")));
  }
}

}  // namespace troupe::actors
