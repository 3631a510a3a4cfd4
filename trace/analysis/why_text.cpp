// Causes as text and as JSON.

#include <fmt/format.h>
#include <boost/json/array.hpp>

#include <array>
#include <map>

#include "base/units.hpp"
#include "trace/analysis/table.hpp"
#include "trace/analysis/why.hpp"

namespace troupe::analysis {

namespace {

/// The actor that the message was sent to.
std::uint16_t receiver_of(const trace::event& message) {
  return message.what == trace::kind::sent ? message.aux : message.actor;
}

std::string state_of(const trace::event& message) {
  return message.what == trace::kind::handled   ? "handled"
         : message.what == trace::kind::arrived ? "arrived, not handled"
                                                : "sent, never arrived";
}

std::string beginning_text(const trace::recording& run, const cause_chain& chain) {
  const trace::event& last = *chain.hops.back().message;
  switch (chain.begins) {
    case cause_chain::start::step:
      return fmt::format("There step {} begins: {} is of step {}.", chain.hops.front().message->step,
                         run.message_name(last.id), last.step);
    case cause_chain::start::actor:
      return fmt::format("{} sent that of its own accord.", run.actor_name(trace::sender_of(last.id)));
    case cause_chain::start::unknown:
      break;
  }
  return fmt::format("That was sent because of {}, of which there is no record.", run.message_name(chain.missing));
}

/// "12 lookup, 3 rows".
std::string types_text(const trace::recording& run, const influence::part& part) {
  std::map<std::uint16_t, std::uint64_t> counts;
  for (const trace::event* one : part.messages) ++counts[one->type];
  std::string text;
  for (const auto& [type, count] : counts)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count_text(count), run.type_name(type));
  return text;
}

}  // namespace

std::string causes_text(const causality& of, const cause_chain& chain, std::size_t limit) {
  const trace::recording& run = of.run();
  const trace::event& message = *chain.hops.front().message;
  table rows({"message", "type", "step", "to", "wire", "waited", "worked", "sent after", "because of"}, "llrlrrrrl");
  for (std::size_t i = 0; i < chain.hops.size(); ++i) {
    const hop& one = chain.hops[i];
    const bool last = i + 1 == chain.hops.size();
    const bool handled = one.message->what == trace::kind::handled;
    const std::string cause =
        last ? "" : run.message_name(chain.hops[i + 1].id) + (one.released ? ", which released it" : "");
    rows.add({run.message_name(one.id), run.type_name(one.message->type), std::to_string(one.message->step),
              run.actor_name(receiver_of(*one.message)), handled ? time_text(one.wire) : "-",
              handled ? time_text(one.waited) : "-", handled ? time_text(one.worked) : "-",
              handled ? time_text(one.into) : "-", cause});
  }
  return fmt::format("{}: {} of step {}, {} by {}; {} causes\n", run.message_name(message.id),
                     run.type_name(message.type), message.step, state_of(message), run.actor_name(receiver_of(message)),
                     chain.hops.size() - 1) +
         rows.text(limit) + beginning_text(run, chain) + "\n";
}

boost::json::object causes_json(const causality& of, const cause_chain& chain) {
  const trace::recording& run = of.run();
  boost::json::array hops;
  for (const hop& one : chain.hops) {
    const trace::event& message = *one.message;
    boost::json::object json = {{"message", run.message_name(one.id)},
                                {"type", run.type_name(message.type)},
                                {"step", message.step},
                                {"from", run.actor_name(trace::sender_of(one.id))},
                                {"to", run.actor_name(receiver_of(message))},
                                {"state", state_of(message)},
                                {"released", one.released}};
    if (message.what == trace::kind::handled) {
      json["sent_ns"] = message.sent;
      json["wire_ns"] = one.wire;
      json["waited_ns"] = one.waited;
      json["worked_ns"] = one.worked;
      json["sent_after_ns"] = one.into;
    }
    hops.push_back(json);
  }
  constexpr std::array<const char*, 3> beginnings = {"step", "actor", "unknown"};
  boost::json::object json = {{"hops", hops}, {"begins_with", beginnings[static_cast<std::size_t>(chain.begins)]}};
  if (chain.missing != 0) json["missing"] = run.message_name(chain.missing);
  return json;
}

std::string influence_text(const causality& of, const influence& what, std::size_t limit) {
  const trace::recording& run = of.run();
  const std::string since = what.step == 0 ? "as far as records go" : fmt::format("since step {} began", what.step);
  std::string text = fmt::format("{} messages of {} actors could have influenced {}, {}\n", count_text(what.messages),
                                 what.actors.size(), run.message_name(what.id), since);
  for (const influence::part& part : what.actors) {
    text += fmt::format("\n{} handled {}{}\n", run.actor_name(part.actor), types_text(run, part),
                        part.reaches_back ? ", and perhaps some before its records begin" : "");
    table rows({"message", "type", "step", "at", "worked"}, "llrrr");
    for (const trace::event* one : part.messages)
      rows.add({run.message_name(one->id), run.type_name(one->type), std::to_string(one->step), time_text(one->begin),
                time_text(one->end - one->begin)});
    text += rows.text(limit);
  }
  return text;
}

boost::json::object influence_json(const causality& of, const influence& what, std::size_t limit) {
  const trace::recording& run = of.run();
  boost::json::array actors;
  for (const influence::part& part : what.actors) {
    boost::json::array messages;
    for (const trace::event* one : part.messages) {
      if (messages.size() == limit) break;
      messages.push_back({{"message", run.message_name(one->id)},
                          {"type", run.type_name(one->type)},
                          {"step", one->step},
                          {"begin_ns", one->begin},
                          {"end_ns", one->end}});
    }
    actors.push_back({{"actor", run.actor_name(part.actor)},
                      {"handled", part.messages.size()},
                      {"reaches_back", part.reaches_back},
                      {"messages", messages}});
  }
  return {{"message", run.message_name(what.id)}, {"step", what.step}, {"handled", what.messages}, {"actors", actors}};
}

}  // namespace troupe::analysis
