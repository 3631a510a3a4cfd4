// How the master handles lost members and late answers: they end the run, and the error names the late member.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "actors/common/failure.hpp"
#include "actors/master/master.hpp"
#include "actors/master/status_round.hpp"

namespace troupe::actors {

namespace {

/// Returns the earliest step for which others wait for actor `name`; none if nothing waits for it.
std::optional<std::uint64_t> awaited_step(const status_round& round, const std::string& name) {
  std::optional<std::uint64_t> first;
  const auto look = [&](const std::vector<msg::wait_status>& waits) {
    for (const msg::wait_status& one : waits)
      if (one.on == name && one.step > 0) first = std::min(first.value_or(one.step), one.step);
  };
  look(round.overall.waits);
  for (const msg::actor_status& group : round.groups) look(group.waits);
  return first;
}

/// Returns whether a text names that actor: "trainer 1", but not "trainer 12".
bool is_named(const std::string& text, const std::string& name) {
  for (auto at = text.find(name); at != text.npos; at = text.find(name, at + 1))
    if (at + name.size() == text.size() || std::isdigit(static_cast<unsigned char>(text[at + name.size()])) == 0)
      return true;
  return false;
}

}  // namespace

void master_state::handle(const msg::node_lost& word) {
  const bool is_member =
      std::ranges::any_of(members_.nodes(), [&](const auto& one) { return one.second.session == word.session; });
  const auto own_stop = members_.own_stop();  // read now, before others take time to answer
  if (phase_ < run_phase::training || !is_member) return act_on(members_.assess(word, step, own_stop));
  if (!losses_.begin_end()) return;
  learn_step(word.session, [this, word, own_stop] { fail(members_.assess(word, step, own_stop).why); });
}

void master_state::handle(const msg::link_lost& word) {
  learn_step({}, [this, word] { act_on(members_.assess(word, step)); });
}

/// After a loss another attempt may follow, which needs to know how far this one came.
void master_state::act_on(const verdict& found) {
  constexpr std::chrono::seconds grace{1};
  using action = loss_response::action;
  switch (losses_.respond(found, phase_)) {
    case action::none:
      return;
    case action::fail:
      return fail(found.why);
    case action::find_late:
      return fail_late(found.why);
    case action::learn_step:
      return learn_step({}, [this, why = found.why] { fail(why); });
    case action::await_better_one:
      learn_step({}, [] {});
      self_->run_delayed(grace, [this] {
        if (const auto why = losses_.reason_after_wait()) fail(*why);
      });
  }
}

/// Fails because of a late answer, once it is known which members handle no message: others wait for them.
void master_state::fail_late(const caf::error& error) {
  ask_all_how_they_are({}, [this, error](const status_round& round) {
    for (const msg::actor_status& one : round.links) step = std::max(step, one.step);
    const std::string said = protocol::describe(error);
    fail(make_failure(errc::timeout, "{}{}", said, late_text(round, said)));
  });
}

/// Describes the members that handle no message: the one named in the error `said`, else those that others wait for; ""
/// if all do. Leaves out the member that has failed with the error, and therefore handles no message either.
std::string master_state::late_text(const status_round& round, const std::string& said) const {
  std::string named, awaited, others;
  for (const msg::actor_status& one : round.overall.actors) {
    if (one.phase != "computing" || said.starts_with(one.name + ", step ")) continue;
    const bool has_function = !plan_.epochs && one.name.starts_with("trainer");
    const std::string what = fmt::format(
        "; {} {}", members_.full_name(one.name),
        has_function ? "has not returned from its own function or loop" : "is at work and handles no message");
    const auto step_awaited = awaited_step(round, one.name);
    const std::string since = step_awaited ? fmt::format("{} since step {}", what, *step_awaited - 1) : what;
    (is_named(said, one.name) ? named : step_awaited ? awaited : others) += since;
  }
  return !named.empty() ? named : !awaited.empty() ? awaited : others;
}

}  // namespace troupe::actors
