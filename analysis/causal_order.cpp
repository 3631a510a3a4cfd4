#include "analysis/causal_order.hpp"

#include <algorithm>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace troupe::analysis {

namespace {

/// A moment as a number: twice its pair, and one more if it is the handling.
using node = std::uint32_t;
constexpr node sent_node(std::size_t pair) { return static_cast<node>(2 * pair); }
constexpr node handled_node(std::size_t pair) { return static_cast<node>(2 * pair + 1); }

class sorter {
 public:
  sorter(const causality& a, const causality& b, std::span<const message_pair> pairs) : pairs_(pairs) {
    for (std::size_t i = 0; i < pairs.size(); ++i) edges_.emplace_back(sent_node(i), handled_node(i));
    add_edges(a, &message_pair::a);
    add_edges(b, &message_pair::b);
  }

  std::vector<message_moment> take() {
    rank_nodes();
    const std::size_t nodes = ranks_.size();
    std::ranges::sort(edges_);
    std::vector<std::uint32_t> before(nodes);  // those that are not in the order yet
    std::vector<std::size_t> first(nodes + 1);
    for (const auto& [from, to] : edges_) {
      ++before[to];
      ++first[from + 1];
    }
    for (std::size_t i = 0; i < nodes; ++i) first[i + 1] += first[i];
    std::priority_queue<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> ready;
    for (node i = 0; i < nodes; ++i)
      if (before[i] == 0) ready.push(ranks_[i]);
    std::vector<message_moment> order;
    std::vector<bool> done(nodes);
    const auto add = [&](node i) {
      done[i] = true;
      order.push_back({i / 2, i % 2 == 1});
    };
    while (!ready.empty()) {
      const node i = by_rank_[ready.top()];
      ready.pop();
      add(i);
      for (std::size_t e = first[i]; e < first[i + 1]; ++e)
        if (--before[edges_[e].second] == 0) ready.push(ranks_[edges_[e].second]);
    }
    // Only a damaged recording has circles.
    for (const node i : by_rank_)
      if (!done[i]) add(i);
    return order;
  }

 private:
  using recorded_in = const trace::event* message_pair::*;

  /// Those between messages of A; and those to what only B has.
  void add_edges(const causality& of, recorded_in in) {
    std::vector<std::uint32_t> there;
    std::unordered_map<std::uint64_t, std::uint32_t> by_id;
    for (std::uint32_t i = 0; i < pairs_.size(); ++i) {
      if (pairs_[i].*in == nullptr) continue;
      there.push_back(i);
      by_id.emplace((pairs_[i].*in)->id, i);
    }
    const auto counts = [&](std::uint32_t pair) { return in == &message_pair::a || pairs_[pair].a == nullptr; };
    for (const std::uint32_t i : there) {
      if (!counts(i)) continue;
      const auto trigger = by_id.find(of.trigger(*(pairs_[i].*in)));
      if (trigger != by_id.end() && trigger->second != i)
        edges_.emplace_back(handled_node(trigger->second), sent_node(i));
    }
    const auto chain = [&](auto key, auto actor, auto to_node) {
      std::ranges::sort(there, {}, [&](std::uint32_t i) { return key(*(pairs_[i].*in)); });
      for (std::size_t i = 1; i < there.size(); ++i)
        if (actor(*(pairs_[there[i - 1]].*in)) == actor(*(pairs_[there[i]].*in)) && counts(there[i]))
          edges_.emplace_back(to_node(there[i - 1]), to_node(there[i]));
    };
    chain([](const trace::event& one) { return one.id; },
          [](const trace::event& one) { return trace::sender_of(one.id); }, sent_node);
    // Events of one actor lie in its order.
    chain([](const trace::event& one) { return std::pair(one.actor, &one); },
          [](const trace::event& one) { return one.actor; }, handled_node);
  }

  void rank_nodes() {
    by_rank_.resize(2 * pairs_.size());
    for (node i = 0; i < by_rank_.size(); ++i) by_rank_[i] = i;
    std::ranges::sort(by_rank_, {}, [&](node i) {
      const trace::event& one = pairs_[i / 2].any();
      return std::tuple(one.step, i % 2, one.id, i);
    });
    ranks_.resize(by_rank_.size());
    for (std::uint32_t rank = 0; rank < by_rank_.size(); ++rank) ranks_[by_rank_[rank]] = rank;
  }

  std::span<const message_pair> pairs_;
  std::vector<std::pair<node, node>> edges_;
  std::vector<node> by_rank_;
  std::vector<std::uint32_t> ranks_;
};

}  // namespace

std::vector<message_moment> causal_order(const causality& a, const causality& b, std::span<const message_pair> pairs) {
  return sorter(a, b, pairs).take();
}

}  // namespace troupe::analysis
