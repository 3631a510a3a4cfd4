#include <fmt/format.h>

#include <boost/json/array.hpp>

#include "base/units.hpp"
#include "trace/analysis/diff.hpp"
#include "trace/analysis/table.hpp"

namespace troupe::analysis {

namespace {

class renderer {
 public:
  renderer(const trace::recording& a, const trace::recording& b, const diff& what) : a_(a), b_(b), what_(what) {}

  std::string first() const {
    const message_difference& one = *what_.first;
    const trace::event& message = one.message.any();
    const trace::recording& run = run_of(one.message);
    std::string text = fmt::format("first difference: step {}, {} of {} to {} ({}): {}", message.step,
                                   run.type_name(message.type), run.actor_name(trace::sender_of(message.id)),
                                   run.actor_name(message.actor), names(one.message), how(one));
    const std::uint64_t before = what_.equal_before;
    if (before == 1) return text + "; the message before it is equal\n";
    if (before == 0) return text + "; no message comes before it\n";
    return text + fmt::format("; all {} messages before it are equal\n", count_text(before));
  }

  std::string same() const {
    if (what_.compared == 0) return "nothing to compare: the recordings have no messages in common\n";
    return fmt::format("no difference: {} messages have the same {}\n", count_text(what_.compared),
                       what_.with_contents ? "order, size and contents" : "order and size");
  }

  std::string types(std::size_t limit) const {
    table rows({"type", "compared", "missing", "extra", "order", "size", "contents", "first in step"}, "lrrrrrrr");
    for (const type_differences& one : what_.types) {
      std::vector<std::string> cells = {one.type, count_text(one.compared)};
      for (const std::uint64_t found : one.found) cells.push_back(found == 0 ? "-" : count_text(found));
      cells.push_back(fmt::format("{}", *one.first_step));
      rows.add(std::move(cells));
    }
    return rows.rows() == 0 ? "" : "\ndifferences by type of message\n" + rows.text(limit);
  }

  std::string times(std::size_t limit) const {
    table rows({"at", "type", "messages", "median in A", "in B", "change", "worst", "in A", "in B"}, "llrrrrlrr");
    for (const time_difference& one : what_.times)
      rows.add({a_.actor_name(one.receiver), a_.type_name(one.type), count_text(one.messages), time_text(one.median_a),
                time_text(one.median_b), change(one), fmt::format("{}, step {}", names(one.worst), one.worst.a->step),
                time_text(one.worst.a->end - one.worst.a->begin), time_text(one.worst.b->end - one.worst.b->begin)});
    return rows.rows() == 0 ? "" : "\ntime that messages took to handle\n" + rows.text(limit);
  }

  /// The message's name in A and in B, once if they are the same.
  std::string names(const message_pair& one) const {
    if (one.a == nullptr) return b_.message_name(one.b->id) + " in B";
    const std::string in_a = a_.message_name(one.a->id);
    if (one.b == nullptr) return in_a + " in A";
    const std::string in_b = b_.message_name(one.b->id);
    return in_a == in_b ? in_a : fmt::format("{} in A, {} in B", in_a, in_b);
  }

  const trace::recording& run_of(const message_pair& one) const { return one.a != nullptr ? a_ : b_; }

  std::string how(const message_difference& one) const {
    if (one.what == difference::missing) return "missing in B";
    if (one.what == difference::extra) return "only in B";
    if (one.what != difference::order) return one.detail;
    return fmt::format("A handled it before {} ({}), B after it", a_.type_name(one.overtaken_by.a->type),
                       names(one.overtaken_by));
  }

 private:
  static std::string change(const time_difference& one) {
    if (one.median_a == 0) return "-";
    const auto a = static_cast<double>(one.median_a);
    return fmt::format("{:+.0f} %", 100 * (static_cast<double>(one.median_b) - a) / a);
  }

  const trace::recording& a_;
  const trace::recording& b_;
  const diff& what_;
};

boost::json::value id_json(const trace::recording& run, const trace::event* message) {
  return message == nullptr ? boost::json::value() : boost::json::value(run.message_name(message->id));
}

}  // namespace

std::string diff_text(const trace::recording& a, const trace::recording& b, const diff& what, std::size_t limit) {
  const renderer text(a, b, what);
  std::string all = what.first ? text.first() : text.same();
  for (const std::string& note : what.notes) all += fmt::format("note: {}\n", note);
  return all + text.types(limit) + text.times(limit);
}

boost::json::object diff_json(const trace::recording& a, const trace::recording& b, const diff& what) {
  const renderer text(a, b, what);
  boost::json::object json = {
      {"same", what.same()}, {"compared", what.compared}, {"with_contents", what.with_contents}, {"first", nullptr}};
  if (what.first) {
    const message_pair& pair = what.first->message;
    const trace::event& message = pair.any();
    const trace::recording& run = text.run_of(pair);
    json["first"] = {{"difference", name_of(what.first->what)}, {"step", message.step},
                     {"type", run.type_name(message.type)},     {"from", run.actor_name(trace::sender_of(message.id))},
                     {"to", run.actor_name(message.actor)},     {"message_a", id_json(a, pair.a)},
                     {"message_b", id_json(b, pair.b)},         {"detail", text.how(*what.first)},
                     {"equal_before", what.equal_before}};
  }
  boost::json::array types;
  for (const type_differences& one : what.types) {
    boost::json::object row = {{"type", one.type}, {"compared", one.compared}, {"first_step", *one.first_step}};
    for (std::size_t i = 0; i < one.found.size(); ++i) row[name_of(static_cast<difference>(i))] = one.found[i];
    types.push_back(std::move(row));
  }
  json["types"] = std::move(types);
  boost::json::array times;
  for (const time_difference& one : what.times)
    times.push_back({{"actor", a.actor_name(one.receiver)},
                     {"type", a.type_name(one.type)},
                     {"messages", one.messages},
                     {"median_a_ns", one.median_a},
                     {"median_b_ns", one.median_b},
                     {"worst_message_a", id_json(a, one.worst.a)},
                     {"worst_message_b", id_json(b, one.worst.b)},
                     {"worst_a_ns", one.worst.a->end - one.worst.a->begin},
                     {"worst_b_ns", one.worst.b->end - one.worst.b->begin}});
  json["times"] = std::move(times);
  json["notes"] = boost::json::array(what.notes.begin(), what.notes.end());
  return json;
}

}  // namespace troupe::analysis
