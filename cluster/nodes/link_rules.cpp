#include "cluster/nodes/link_rules.hpp"

#include <algorithm>
#include <utility>

#include "base/number.hpp"

namespace troupe::nodes {

namespace {

/// Decides which side connects: trainers connect to servers; of two nodes of the same role, the later one connects.
bool dials(const msg::peer_node& from, const msg::peer_node& to) {
  return from.trains == to.trains ? from.node > to.node : from.trains;
}

std::uint64_t number_in(const links::hello& items, std::string_view name) {
  const auto text = links::find_item(items, name);
  return (text ? parse_number<std::uint64_t>(*text) : std::nullopt).value_or(UINT64_MAX);
}

}  // namespace

std::uint64_t node_in(const links::hello& items) { return number_in(items, "node"); }

void link_rules::expect(const link_identity& me, std::vector<msg::peer_node> peers) {
  me_ = me;
  peers_ = std::move(peers);
  if (const msg::peer_node* mine = myself())
    for (const msg::peer_node& other : peers_)
      if (need_a_link(*mine, other)) missing_.insert(other.node);
}

const msg::peer_node* link_rules::find(std::uint32_t node) const {
  const auto known = std::ranges::find(peers_, node, &msg::peer_node::node);
  return known == peers_.end() ? nullptr : &*known;
}

bool link_rules::need_a_link(const msg::peer_node& a, const msg::peer_node& b) const {
  return a.node != b.node && (a.trains || b.trains || me_.servers_talk);
}

std::vector<std::uint32_t> link_rules::to_dial() const {
  std::vector<std::uint32_t> all;
  if (const msg::peer_node* mine = myself())
    for (const msg::peer_node& other : peers_)
      if (need_a_link(*mine, other) && dials(*mine, other)) all.push_back(other.node);
  return all;
}

links::hello link_rules::about_me() const {
  return {{"purpose", "data"},
          {"run", std::to_string(me_.run)},
          {"node", std::to_string(me_.node)},
          {"incarnation", std::to_string(me_.incarnation)}};
}

links::hello_reply link_rules::check_hello(const links::hello& theirs, const std::string& certificate) const {
  if (links::find_item(theirs, "purpose") != "data") return bad_input("this port takes data links only");
  if (number_in(theirs, "run") != me_.run)
    return bad_input("a data link of run {}, this is run {}", number_in(theirs, "run"), me_.run);
  const std::uint64_t node = node_in(theirs);
  const msg::peer_node* peer = node > UINT32_MAX ? nullptr : find(static_cast<std::uint32_t>(node));
  if (peer == nullptr) return bad_input("a data link of node {}, which is not in this run", node);
  if (number_in(theirs, "incarnation") != peer->incarnation)
    return bad_input("{} is in its incarnation {}; this is incarnation {}", peer->name, peer->incarnation,
                     number_in(theirs, "incarnation"));
  if (certificate != peer->certificate) return bad_input("{} had another certificate when it joined", peer->name);
  if (!missing_.contains(peer->node)) return bad_input("{} has its data link, or needs none", peer->name);
  return about_me();
}

}  // namespace troupe::nodes
