#include "trace/analysis/message_id.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <utility>

#include "base/number.hpp"

namespace troupe::analysis {

namespace {

/// `text` in lower case, with blanks for dashes, without blanks at the ends.
std::string plain(std::string_view text) {
  std::string name;
  for (const char c : text) name += c == '-' ? ' ' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto first = name.find_first_not_of(' ');
  return first == name.npos ? "" : name.substr(first, name.find_last_not_of(' ') - first + 1);
}

/// `t0` of `trainer 0`, `m` of `master`.
std::string short_form(const std::string& name) {
  const auto blank = name.rfind(' ');
  return name.substr(0, 1) + (blank == name.npos ? "" : name.substr(blank + 1));
}

/// By sender: the first and the last recorded sequence number.
std::map<std::uint16_t, std::pair<std::uint64_t, std::uint64_t>> senders(const trace::recording& run) {
  std::map<std::uint16_t, std::pair<std::uint64_t, std::uint64_t>> all;
  for (const trace::event& one : run.events | boost::adaptors::filtered(is_of_message)) {
    const std::uint64_t sequence = trace::sequence_of(one.id);
    auto& [first, last] = all.try_emplace(trace::sender_of(one.id), sequence, sequence).first->second;
    first = std::min(first, sequence);
    last = std::max(last, sequence);
  }
  return all;
}

std::string names_of(const trace::recording& run, const auto& senders) {
  std::string list;
  for (const auto& [sender, _] : senders) list += (list.empty() ? "" : ", ") + run.actor_name(sender);
  return list.empty() ? "the recording holds no message" : "the recording holds messages of " + list;
}

/// Searches the senders and the actors on the board.
std::optional<std::uint16_t> find_among(const trace::recording& run, const auto& senders, std::string_view text) {
  const std::string name = plain(text);
  std::optional<std::uint16_t> found;
  const auto consider = [&](std::uint16_t actor) {
    const std::string known = run.actor_name(actor);
    if (name == known || (!found && name == short_form(known))) found = actor;
  };
  for (const auto& [actor, _] : senders) consider(actor);
  for (const trace::actor_state& actor : run.actors) consider(actor.actor);
  return found;
}

}  // namespace

std::string write_id(std::uint64_t id) { return fmt::format("{}.{}", trace::sender_of(id), trace::sequence_of(id)); }

std::optional<std::uint64_t> read_id(std::string_view text) {
  const auto dot = text.find('.');
  if (dot == text.npos) return std::nullopt;
  const auto sender = parse_number<std::uint16_t>(text.substr(0, dot));
  const auto sequence = parse_number<std::uint64_t>(text.substr(dot + 1));
  if (!sender || !sequence || *sequence > trace::record::max48) return std::nullopt;
  return std::uint64_t{*sender} << 48 | *sequence;
}

result<std::uint16_t> find_actor(const trace::recording& run, std::string_view text) {
  const auto all = senders(run);
  if (const auto found = find_among(run, all, text)) return *found;
  return bad_input("there is no actor '{}'; {}", text, names_of(run, all));
}

result<std::uint64_t> find_message(const causality& of, std::string_view text) {
  const trace::recording& run = of.run();
  const auto all = senders(run);
  const auto there = [&](std::uint64_t id) -> result<std::uint64_t> {
    if (of.handled(id) != nullptr || of.sent(id) != nullptr || of.arrived(id) != nullptr) return id;
    const auto sender = all.find(trace::sender_of(id));
    if (sender == all.end()) return bad_input("{}: {}", run.message_name(id), names_of(run, all));
    const auto& [first, last] = sender->second;
    return bad_input("{}: of {} the recording holds messages between #{} and #{}, not this one", run.message_name(id),
                     run.actor_name(sender->first), first, last);
  };

  if (const auto id = parse_number<std::uint64_t>(text)) return there(*id);
  const auto split = text.find_last_of("#:");
  const auto sequence = split == text.npos ? std::nullopt : parse_number<std::uint64_t>(text.substr(split + 1));
  if (!sequence || *sequence > trace::record::max48)
    return bad_input("'{}' names no message: write it as in 'trainer 0 #417', trainer-0:417 or t0:417", text);
  const auto sender = find_among(run, all, text.substr(0, split));
  if (!sender)
    return bad_input("'{}': there is no actor '{}'; {}", text, plain(text.substr(0, split)), names_of(run, all));
  return there(std::uint64_t{*sender} << 48 | *sequence);
}

}  // namespace troupe::analysis
