#include "trace/analysis/diff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <map>
#include <unordered_map>

#include "base/units.hpp"
#include "trace/analysis/contents.hpp"
#include "trace/analysis/lookup.hpp"
#include "trace/analysis/steps.hpp"
#include "trace/analysis/training_order.hpp"

namespace troupe::analysis {

namespace {

using content_index = std::unordered_map<std::uint64_t, const trace::content*>;

content_index index_contents(const trace::recording& run) {
  content_index made;
  for (const trace::content& one : run.contents) made.emplace(one.id, &one);
  return made;
}

std::string setting_text(const boost::json::value& value) {
  return value.is_string() ? std::string(value.get_string()) : boost::json::serialize(value);
}

/// The object `key` in the metadata of the first process that has it; null: none has.
const boost::json::object* metadata_of(const trace::recording& run, std::string_view key) {
  for (const trace::process_info& process : run.processes) {
    const auto* found = process.metadata.if_contains(key);
    if (found != nullptr && found->is_object()) return &found->get_object();
  }
  return nullptr;
}

/// The first setting that differs, and how many others do; empty: none, or a recording does not hold its job.
std::string compare_jobs(const trace::recording& a, const trace::recording& b) {
  const boost::json::object *in_a = metadata_of(a, "job"), *in_b = metadata_of(b, "job");
  if (in_a == nullptr || in_b == nullptr) return "";
  std::string text;
  std::size_t more = 0;
  const auto differs = [&](std::string_view name, const std::string& text_a, const std::string& text_b) {
    if (text.empty())
      text = fmt::format("the jobs differ: {} is {} in A and {} in B", name, text_a, text_b);
    else
      ++more;
  };
  for (const auto& [name, value] : *in_a) {
    const boost::json::value* other = in_b->if_contains(name);
    if (other == nullptr || *other != value)
      differs(name, setting_text(value), other == nullptr ? "not set" : setting_text(*other));
  }
  for (const auto& [name, value] : *in_b)
    if (!in_a->contains(name)) differs(name, "not set", setting_text(value));
  if (more > 0) text += fmt::format("; so {} {} other settings", more == 1 ? "does" : "do", more);
  return text;
}

/// How the devices that the runs computed on differ; empty: they do not.
std::string compare_devices(const trace::recording& a, const trace::recording& b) {
  const auto text = [](const trace::recording& run) {
    const boost::json::object* devices = metadata_of(run, "devices");
    return devices == nullptr ? "the processor" : boost::json::serialize(*devices);
  };
  if (text(a) == text(b)) return "";
  return fmt::format("the devices differ: {} in A and {} in B", text(a), text(b));
}

class comparison {
 public:
  comparison(const trace::recording& a, const trace::recording& b, const diff_options& how)
      : a_(a), b_(b), how_(how), contents_a_(index_contents(a)), contents_b_(index_contents(b)) {}

  diff take() {
    if (std::string jobs = compare_jobs(a_, b_); !jobs.empty()) made_.notes.push_back(std::move(jobs));
    if (std::string devices = compare_devices(a_, b_); !devices.empty()) made_.notes.push_back(std::move(devices));
    alignment aligned = align(a_, b_);
    pairs_ = std::move(aligned.pairs);
    other_forms_ = aligned.other_forms;
    std::ranges::move(aligned.notes, std::back_inserter(made_.notes));
    made_.compared = pairs_.size();
    compare_messages();
    find_reordered();
    find_first();
    note_contents();
    count_by_type();
    if (how_.timing) compare_times(*how_.timing);
    return std::move(made_);
  }

 private:
  struct finding {
    difference what;
    std::uint32_t overtaken_by = 0;
  };

  void compare_messages() {
    for (std::uint32_t i = 0; i < pairs_.size(); ++i) {
      const auto [a, b] = pairs_[i];
      if (!pairs_[i].is_whole()) {
        at_sending_.emplace(i, finding{a == nullptr ? difference::extra : difference::missing});
        continue;
      }
      const difference what = compare_message(*a, *b).first;
      if (what != difference::count) at_sending_.emplace(i, finding{what});
    }
  }

  std::pair<difference, std::string> compare_message(const trace::event& a, const trace::event& b) {
    const std::string& type = type_name(a);
    if (other_forms_ && is_any_of<msg::lookup, msg::rows, msg::gradient>(type)) return {difference::count, ""};
    const auto *in_a = find_in(contents_a_, a.id), *in_b = find_in(contents_b_, b.id);
    std::string text;
    bool fields_differ = false;
    if (in_a != nullptr && in_b != nullptr) {
      text = compare_parts(**in_a, **in_b, "in A", "in B");
      fields_differ =
          (*in_a)->fields_digest != (*in_b)->fields_digest && traits_a_[a.type].diff == protocol::comparable::whole;
    } else {
      ++without_contents_;
    }
    if (a.bytes != b.bytes)
      return {difference::size, fmt::format("it has {} bytes in A, {} in B{}{}", count_text(a.bytes),
                                            count_text(b.bytes), text.empty() ? "" : ": ", text)};
    if (text.empty() && fields_differ)
      text = fmt::format("fields differ (digest {:016x} in A, {:016x} in B)", (*in_a)->fields_digest,
                         (*in_b)->fields_digest);
    return {text.empty() ? difference::count : difference::contents, std::move(text)};
  }

  /// Finds messages that A and B handled in different orders where the order counts.
  void find_reordered() {
    const auto staleness_a = training_order(a_).staleness(), staleness_b = training_order(b_).staleness();
    const bool servers_depend = staleness_a.value_or(1) > 0 || staleness_b.value_or(1) > 0;
    std::map<std::pair<std::uint16_t, std::uint32_t>, std::vector<std::uint32_t>> classes;
    constexpr std::uint32_t any_sender = UINT32_MAX;
    std::map<std::uint16_t, bool> one_class;
    for (std::uint32_t i = 0; i < pairs_.size(); ++i) {
      if (!pairs_[i].is_whole()) continue;
      const trace::event* a = pairs_[i].a;
      const auto [together, is_new] = one_class.try_emplace(a->actor);
      if (is_new)
        together->second = how_.any_order || (servers_depend && rank_in(a_.actor_name(a->actor), "server").has_value());
      classes[{a->actor, together->second ? any_sender : trace::sender_of(a->id)}].push_back(i);
    }
    for (auto& [where, all] : classes) find_reordered(all, where.second == any_sender && !how_.any_order);
  }

  /// The same among messages whose order counts; `reads_commute`: except between those that only read.
  void find_reordered(std::vector<std::uint32_t>& all, bool reads_commute) {
    std::ranges::sort(all, {}, [&](std::uint32_t i) { return pairs_[i].a; });
    const trace::event* first_write = nullptr;  // of the writes that A handles later, the first in B's order
    const trace::event* first = nullptr;        // of all messages that A handles later, the first in B's order
    std::uint32_t write_pair = 0, pair = 0;
    for (std::size_t place = all.size(); place-- > 0;) {
      const std::uint32_t i = all[place];
      const trace::event* b = pairs_[i].b;
      const bool reads = reads_commute && traits_a_[pairs_[i].a->type].only_reads;
      const trace::event* earliest = reads ? first_write : first;
      if (earliest != nullptr && earliest < b)
        at_handling_.emplace(i, finding{difference::order, reads ? write_pair : pair});
      if (first == nullptr || b < first) first = b, pair = i;
      if (!reads && (first_write == nullptr || b < first_write)) first_write = b, write_pair = i;
    }
  }

  void find_first() {
    if (at_sending_.empty() && at_handling_.empty()) return;
    for (const message_moment& moment : causal_order(causality(a_), causality(b_), pairs_)) {
      const auto& where = moment.handled ? at_handling_ : at_sending_;
      const finding* found = find_in(where, moment.pair);
      if (found == nullptr) {
        if (!moment.handled) ++made_.equal_before;
        continue;
      }
      const message_pair& message = pairs_[moment.pair];
      made_.first = message_difference{found->what, message, {}, {}};
      if (found->what == difference::order) {
        made_.first->overtaken_by = pairs_[found->overtaken_by];
        --made_.equal_before;  // its sending was counted as equal before
      } else if (message.is_whole()) {
        made_.first->detail = compare_message(*message.a, *message.b).second;
      }
      return;
    }
  }

  void note_contents() {
    made_.with_contents = !a_.contents.empty() && !b_.contents.empty();
    const char* lacking = a_.contents.empty() ? (b_.contents.empty() ? "A and B" : "A") : "B";
    if (!made_.with_contents)
      add_line(
          made_.notes,
          "contents were not recorded in {} (that takes --trace full): messages are compared by number, order and size",
          lacking);
    else if (without_contents_ > 0)
      add_line(made_.notes, "of {} messages contents were not recorded, only sizes", count_text(without_contents_));
  }

  void count_by_type() {
    std::map<std::string, type_differences> types;
    for (std::uint32_t i = 0; i < pairs_.size(); ++i) {
      type_differences& of = types[type_name(pairs_[i])];
      ++of.compared;
      for (const auto* where : {&at_sending_, &at_handling_}) {
        const finding* found = find_in(*where, i);
        if (found == nullptr) continue;
        ++of.found[static_cast<std::size_t>(found->what)];
        const std::uint64_t step = pairs_[i].any().step;
        of.first_step = std::min(of.first_step.value_or(step), step);
      }
    }
    for (auto& [name, of] : types) {
      if (!of.first_step) continue;
      of.type = name;
      made_.types.push_back(std::move(of));
    }
    std::ranges::stable_sort(made_.types, {}, [](const type_differences& one) { return *one.first_step; });
  }

  void compare_times(double percent) {
    std::map<std::pair<std::uint16_t, std::uint16_t>, std::vector<message_pair>> groups;
    for (const message_pair& one : pairs_)
      if (one.is_whole()) groups[{one.a->actor, one.a->type}].push_back(one);
    const auto worked = [](const trace::event* one) { return one->end - one->begin; };
    for (const auto& [where, all] : groups) {
      std::vector<trace::nanoseconds> in_a, in_b;
      for (const auto& [a, b] : all) {
        in_a.push_back(worked(a));
        in_b.push_back(worked(b));
      }
      time_difference made{where.first, where.second, all.size(), percentile(in_a, 50), percentile(in_b, 50), {}};
      const trace::nanoseconds change = made.median_b - made.median_a;
      if (std::abs(static_cast<double>(change)) <= percent / 100 * static_cast<double>(made.median_a)) continue;
      const auto by = [&](const message_pair& one) {
        const trace::nanoseconds longer = worked(one.b) - worked(one.a);
        return change > 0 ? longer : -longer;
      };
      made.worst = *std::ranges::max_element(all, {}, by);
      made_.times.push_back(made);
    }
    std::ranges::stable_sort(made_.times, std::greater(), [](const time_difference& one) {
      return std::abs(one.median_b - one.median_a) * static_cast<trace::nanoseconds>(one.messages);
    });
  }

  const std::string& type_name(const trace::event& of_a) { return type_names_a_[of_a.type]; }
  const std::string& type_name(const message_pair& one) {
    return one.a != nullptr ? type_names_a_[one.a->type] : type_names_b_[one.b->type];
  }

  const trace::recording& a_;
  const trace::recording& b_;
  const diff_options& how_;
  content_index contents_a_;
  content_index contents_b_;
  by_number<std::string> type_names_a_{[this](std::uint16_t type) { return a_.type_name(type); }};
  by_number<protocol::message_traits> traits_a_{
      [this](std::uint16_t type) { return protocol::traits_by_name(a_.type_name(type)); }};
  by_number<std::string> type_names_b_{[this](std::uint16_t type) { return b_.type_name(type); }};
  std::vector<message_pair> pairs_;
  bool other_forms_ = false;
  std::unordered_map<std::uint32_t, finding> at_sending_;   ///< by pair
  std::unordered_map<std::uint32_t, finding> at_handling_;  ///< by pair
  std::uint64_t without_contents_ = 0;
  diff made_;
};

}  // namespace

diff compare(const trace::recording& a, const trace::recording& b, const diff_options& how) {
  return comparison(a, b, how).take();
}

const char* name_of(difference what) {
  constexpr std::array<const char*, 6> names = {"missing", "extra", "order", "size", "contents", "none"};
  return names[static_cast<std::size_t>(what)];
}

}  // namespace troupe::analysis
