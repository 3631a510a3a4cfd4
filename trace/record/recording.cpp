#include "trace/record/recording.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "trace/record/clock.hpp"
#include "trace/record/names.hpp"

namespace troupe::trace {

std::string recording::actor_name(std::uint16_t actor) const {
  const actor_state* known = find_actor(actor);
  if (known != nullptr) return known->name;
  return actor == client_actor ? "client" : fmt::format("actor {}", actor);
}

std::optional<std::string> recording::unreadable_metadata() const {
  const auto found = std::ranges::find_if(processes, [](const auto& one) { return !one.metadata_fault.empty(); });
  if (found == processes.end()) return std::nullopt;
  return fmt::format("{}: its metadata {}", found->files.empty() ? "a process" : found->files.front().string(),
                     found->metadata_fault);
}

nanoseconds recording::complete_from() const {
  nanoseconds from = std::numeric_limits<nanoseconds>::min();
  for (const process_info& process : processes) from = std::max(from, process.complete_from);
  return from;
}

std::string recording::type_name(std::uint16_t type) const {
  const auto known = types.find(type);
  return known == types.end() ? fmt::format("type {}", type) : known->second;
}

namespace {

/// A name of Troupe's, or one that a program has given.
template <class Name>
std::string own_or_given(const recording& in, Name what) {
  const auto number = static_cast<std::uint16_t>(what);
  return number >= given_names_begin ? in.type_name(number) : std::string(name_of(what));
}

}  // namespace

std::string recording::range_text(range_name what) const { return own_or_given(*this, what); }

std::string recording::metric_text(metric_name what) const { return own_or_given(*this, what); }

std::string recording::message_name(std::uint64_t id) const {
  return fmt::format("{} #{}", actor_name(sender_of(id)), sequence_of(id));
}

const attempt_info* recording::attempt() const {
  const auto found = std::ranges::find(attempts, run, &attempt_info::run);
  return found == attempts.end() ? nullptr : &*found;
}

const actor_state* recording::find_actor(std::uint16_t actor) const {
  const auto known = std::ranges::find(actors, actor, &actor_state::actor);
  return known == actors.end() ? nullptr : &*known;
}

bool is_recording(const process_info& one) {
  return one.end == ending::none && !one.is_copy && is_there(one.boot, one.pid);
}

nanoseconds recording::end() const {
  nanoseconds last = 0;
  for (const process_info& one : processes) last = std::max(last, one.last);
  return last;
}

}  // namespace troupe::trace
