#include "trace/analysis/alignment.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/units.hpp"
#include "trace/analysis/lookup.hpp"
#include "trace/analysis/training_order.hpp"

namespace troupe::analysis {

namespace {

bool is_group(std::string_view name) { return name == "allreduce" || name.starts_with("allreduce "); }

/// Messages with equal keys are paired. Both recordings share the numbers of names.
struct message_key {
  std::uint64_t step = 0;
  std::uint32_t receiver = 0;
  std::uint32_t sender = 0;
  std::uint32_t type = 0;
  std::uint32_t bucket = 0;

  auto operator<=>(const message_key&) const = default;  // NOLINT(modernize-use-nullptr): it compares with 0
};

struct keyed_message {
  message_key key;
  const trace::event* message = nullptr;
};

/// One of the two recordings.
struct side {
  const trace::recording& run;
  const char* name;
  std::set<std::string> actors;  ///< those on the board, and those that sent or handled a message
  std::vector<keyed_message> messages;
  bool has_gaps = false;  ///< a message may have been handled without a record
  bool ended = false;     ///< cleanly

  side(const trace::recording& of, const char* its_name) : run(of), name(its_name) {
    ended = has_ended_cleanly(run);
    for (const trace::process_info& process : run.processes)
      has_gaps |= process.filtered || (process.overwritten > 0 && text_at(process.metadata, "mode") != "ring");
    by_number<std::string> names([&](std::uint16_t actor) { return run.actor_name(actor); });
    for (const trace::event& one : run.events | of_kind(trace::kind::handled)) {
      actors.insert(names[one.actor]);
      actors.insert(names[trace::sender_of(one.id)]);
    }
    for (const trace::actor_state& actor : run.actors) actors.insert(actor.name);
  }
};

/// The first step whose messages are all in the ring: a trainer sends them no earlier than the begin of the step
/// `lookahead` steps before. 0: nothing has been overwritten; nullopt: no such step.
std::optional<std::uint64_t> first_whole_step(const side& of) {
  const trace::nanoseconds since = of.run.complete_from();
  if (of.has_gaps || since == std::numeric_limits<trace::nanoseconds>::min()) return 0;
  std::map<std::uint16_t, std::uint64_t> begun;  // by trainer, the first step that began since
  for (const trace::event& one : of.run.events | of_kind(trace::kind::step))
    if (one.begin >= since) begun.try_emplace(one.actor, one.step);
  if (begun.empty()) return {};
  const auto newest = std::ranges::max_element(begun, {}, [](const auto& one) { return one.second; });
  return newest->second + 1 + training_order(of.run).lookahead();
}

class aligner {
 public:
  aligner(const trace::recording& a, const trace::recording& b) : a_(a, "A"), b_(b, "B") {}

  alignment take() {
    find_actors();
    if (!find_steps()) return std::move(made_);
    collect(a_);
    collect(b_);
    pair_up();
    leave_out();
    return std::move(made_);
  }

 private:
  void find_actors() {
    const auto groups = [](const side& of) {
      std::set<std::string> found;
      std::ranges::copy_if(of.actors, std::inserter(found, found.end()), is_group);
      return found;
    };
    const auto groups_a = groups(a_), groups_b = groups(b_);
    joins_groups_ = !groups_a.empty() && !groups_b.empty() && groups_a != groups_b;
    if (joins_groups_)
      add_line(made_.notes,
               "A has {} and B has {}: they count as one actor, and messages between its parts are not compared",
               fmt::join(groups_a, ", "), fmt::join(groups_b, ", "));
    const auto in_one_process = [](const std::set<std::string>& of) { return of.contains("allreduce"); };
    made_.other_forms = joins_groups_ && in_one_process(groups_a) != in_one_process(groups_b);
    if (made_.other_forms)
      add_line(made_.notes,
               "one ran in one process and the other in several, so lookups, rows and gradients have other forms: what "
               "they hold is not compared");
    std::ranges::set_intersection(a_.actors, b_.actors, std::inserter(common_, common_.end()));
    for (const side* one : {&a_, &b_}) {
      std::vector<std::string> alone;
      for (const std::string& name : one->actors)
        if (!common_.contains(name) && !(joins_groups_ && is_group(name))) alone.push_back(name);
      if (!alone.empty())
        add_line(made_.notes, "only {} has {}: messages of these are not compared", one->name, fmt::join(alone, ", "));
    }
    for (const side* one : {&a_, &b_})
      if (one->has_gaps)
        add_line(made_.notes,
                 "{} does not hold all messages (it was filtered, or the recorder could not keep up): what it lacks "
                 "does not count as a difference",
                 one->name);
  }

  bool find_steps() {
    for (const side* one : {&a_, &b_}) {
      const auto first = first_whole_step(*one);
      if (!first) {
        add_line(made_.notes, "the ring of {} holds no whole step: nothing is compared", one->name);
        return false;
      }
      if (*first > 0)
        add_line(made_.notes, "the beginning of {} has been overwritten: steps from {} on are compared", one->name,
                 *first);
      first_step_ = std::max(first_step_, *first);
    }
    return true;
  }

  std::uint32_t number_of(const std::string& name) {
    return numbers_.try_emplace(name, static_cast<std::uint32_t>(numbers_.size())).first->second;
  }

  /// The number of an actor's name; nullopt if its messages are not compared.
  std::optional<std::uint32_t> actor_number(const std::string& name) {
    if (joins_groups_ && is_group(name)) return number_of("allreduce");
    return common_.contains(name) ? std::optional(number_of(name)) : std::nullopt;
  }

  struct type_info {
    bool counts = false;
    bool has_bucket = false;
    std::uint32_t number = 0;
  };

  type_info about(const std::string& type) {
    const protocol::message_traits& traits = protocol::traits_by_name(type);
    const bool is_left_out = joins_groups_ && is_any_of<msg::bucket_share, msg::bucket_sum>(type);
    return {.counts = traits.diff != protocol::comparable::no && !is_left_out,
            .has_bucket = traits.by_bucket,
            .number = number_of("type " + type)};
  }

  void collect(side& to) {
    by_number<type_info> types([&](std::uint16_t type) { return about(to.run.type_name(type)); });
    by_number<std::optional<std::uint32_t>> actors(
        [&](std::uint16_t actor) { return actor_number(to.run.actor_name(actor)); });
    for (const trace::event& one : to.run.events | of_kind(trace::kind::handled)) {
      if (one.step < first_step_ || !types[one.type].counts) continue;
      const type_info& type = types[one.type];
      const auto receiver = actors[one.actor], sender = actors[trace::sender_of(one.id)];
      if (!receiver || !sender) continue;
      const std::uint32_t bucket = type.has_bucket ? one.aux : 0U;
      to.messages.push_back({{one.step, *receiver, *sender, type.number, bucket}, &one});
    }
    std::ranges::sort(to.messages, {}, [](const keyed_message& one) { return std::tuple(one.key, one.message->id); });
  }

  void pair_up() {
    auto a = a_.messages.begin();
    auto b = b_.messages.begin();
    while (a != a_.messages.end() || b != b_.messages.end()) {
      const bool has_a = a != a_.messages.end() && (b == b_.messages.end() || a->key <= b->key);
      const bool has_b = b != b_.messages.end() && (a == a_.messages.end() || b->key <= a->key);
      keys_.push_back(has_a ? a->key : b->key);
      made_.pairs.push_back({has_a ? (a++)->message : nullptr, has_b ? (b++)->message : nullptr});
    }
  }

  /// Removes the messages that only one recording has if that does not count as a difference.
  void leave_out() {
    const bool both_broke_off = !a_.ended && !b_.ended;
    // By receiver and sender: the last message that both have, as A and as B numbers it.
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<std::uint64_t, std::uint64_t>> last;
    for (std::size_t i = 0; both_broke_off && i < keys_.size(); ++i) {
      const auto [a, b] = made_.pairs[i];
      if (!made_.pairs[i].is_whole()) continue;
      auto& [last_a, last_b] = last[{keys_[i].receiver, keys_[i].sender}];
      last_a = std::max(last_a, a->id);
      last_b = std::max(last_b, b->id);
    }
    std::array<std::uint64_t, 2> beyond{};
    std::vector<message_pair> kept;
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      if (const auto [a, b] = made_.pairs[i]; !made_.pairs[i].is_whole()) {
        if ((a == nullptr ? a_ : b_).has_gaps) continue;
        const auto [last_a, last_b] = last[{keys_[i].receiver, keys_[i].sender}];
        if (both_broke_off && (a != nullptr ? a->id > last_a : b->id > last_b)) {
          ++beyond[a != nullptr ? 0 : 1];
          continue;
        }
      }
      kept.push_back(made_.pairs[i]);
    }
    made_.pairs = std::move(kept);
    for (const std::size_t i : {0U, 1U})
      if (beyond[i] > 0)
        add_line(made_.notes, "neither run ended cleanly: {} messages of {} after the end of {} are not compared",
                 count_text(beyond[i]), i == 0 ? "A" : "B", i == 0 ? "B" : "A");
    if (a_.ended != b_.ended)
      add_line(made_.notes, "{} did not end cleanly: it may lack messages for that reason", a_.ended ? "B" : "A");
  }

  side a_;
  side b_;
  bool joins_groups_ = false;
  std::uint64_t first_step_ = 0;
  std::set<std::string> common_;
  std::map<std::string, std::uint32_t> numbers_;
  std::vector<message_key> keys_;  ///< by pair
  alignment made_;
};

/// A moment as a number: 2 * pair for the sending, 2 * pair + 1 for the handling.
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
    std::vector<std::uint32_t> before(nodes);  // how many predecessors are not in the order yet
    std::vector<std::size_t> first(nodes + 1);
    for (const auto& [from, to] : edges_) {
      ++before[to];
      ++first[from + 1];
    }
    std::partial_sum(first.begin(), first.end(), first.begin());
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
    // The remaining moments are on cycles, which only damaged recordings have.
    for (const node i : by_rank_)
      if (!done[i]) add(i);
    return order;
  }

 private:
  using recorded_in = const trace::event* message_pair::*;

  /// Adds all edges of A, but only those edges of B that lead to messages that A lacks.
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
      const std::uint32_t* trigger = find_in(by_id, of.trigger(*(pairs_[i].*in)));
      if (trigger != nullptr && *trigger != i) edges_.emplace_back(handled_node(*trigger), sent_node(i));
    }
    const auto chain = [&](auto key, auto actor, auto to_node) {
      std::ranges::sort(there, {}, [&](std::uint32_t i) { return key(*(pairs_[i].*in)); });
      for (std::size_t i = 1; i < there.size(); ++i)
        if (actor(*(pairs_[there[i - 1]].*in)) == actor(*(pairs_[there[i]].*in)) && counts(there[i]))
          edges_.emplace_back(to_node(there[i - 1]), to_node(there[i]));
    };
    chain([](const trace::event& one) { return one.id; },
          [](const trace::event& one) { return trace::sender_of(one.id); }, sent_node);
    // The recording has the events of an actor in the order in which they happened.
    chain([](const trace::event& one) { return std::pair(one.actor, &one); },
          [](const trace::event& one) { return one.actor; }, handled_node);
  }

  void rank_nodes() {
    by_rank_.resize(2 * pairs_.size());
    std::iota(by_rank_.begin(), by_rank_.end(), node{0});
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

alignment align(const trace::recording& a, const trace::recording& b) { return aligner(a, b).take(); }

std::vector<message_moment> causal_order(const causality& a, const causality& b, std::span<const message_pair> pairs) {
  return sorter(a, b, pairs).take();
}

}  // namespace troupe::analysis
