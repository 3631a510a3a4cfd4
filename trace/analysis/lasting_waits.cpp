#include "trace/analysis/lasting_waits.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <thread>
#include <tuple>

#include "trace/analysis/training_order.hpp"

namespace troupe::analysis {

namespace {

bool is_question(std::string_view type) {
  return is_any_of<msg::actor_query, msg::status, msg::evidence_query, msg::collect_evidence, msg::trouble,
                   msg::verdict_found>(type);
}

/// Identifies the subject of a wait, whatever its present state is.
auto key_of(const wait_edge& one) {
  const auto call = one.call == nullptr ? std::tuple<std::uint64_t, std::uint64_t, std::uint32_t>()
                                        : std::tuple(one.call->number, one.call->group, one.call->instance);
  const std::uint64_t collective = one.collective ? one.collective->sequence : 0;
  return std::tuple(one.who, one.on, one.is_answer, one.type, one.step, one.is_answer ? one.message : 0, collective,
                    call);
}

/// Whether the actor is at the same work in both. The same moment may differ by the clocks' readings.
bool is_at_same_work(const trace::actor_state& a, const trace::actor_state& b) {
  constexpr trace::nanoseconds tolerance = 1'000'000;
  return a.message == b.message && (a.message_begin < 0) == (b.message_begin < 0) &&
         std::abs(a.message_begin - b.message_begin) < tolerance;
}

}  // namespace

progress::progress(const trace::recording& before, const trace::recording& now) {
  std::map<std::uint16_t, std::uint64_t> questions;
  for (const trace::event& one : now.events | of_kind(trace::kind::handled))
    if (const trace::actor_state* then = before.find_actor(one.actor))
      if (one.begin > before.processes[then->process].last && is_question(now.type_name(one.type)))
        ++questions[one.actor];
  for (const trace::actor_state& one : now.actors) {
    const trace::actor_state* then = before.find_actor(one.actor);
    const std::uint64_t handled = one.handled - std::min(one.handled, then == nullptr ? 0 : then->handled);
    const std::uint64_t of_run = handled - std::min(handled, questions[one.actor]);
    handled_ += of_run;
    const bool is_elsewhere = then == nullptr || then->alive != one.alive || then->step != one.step ||
                              (questions[one.actor] == 0 && !is_at_same_work(*then, one));
    if (of_run > 0 || is_elsewhere) moved_.insert(one.actor);
  }
}

bool second_look::has_more(const blocked_report& found) {
  constexpr int looks_max = 5;
  constexpr std::chrono::milliseconds pause{100};
  const bool is_fact = found.what == blockage::dead || found.what == blockage::stopped;
  const bool is_over = looks_ == looks_max || (looks_ > 0 && found.what == blockage::none);
  if (is_fact || is_over) return false;
  ++looks_;
  std::this_thread::sleep_for(pause);
  return true;
}

std::vector<wait_edge> lasting_waits(std::vector<wait_edge> now, const std::vector<wait_edge>& before,
                                     const progress& since) {
  using key = decltype(key_of(before.front()));
  std::set<key> known;
  for (const wait_edge& one : before) known.insert(key_of(one));
  std::erase_if(now, [&](const wait_edge& one) { return !known.contains(key_of(one)); });
  std::set<std::uint16_t> waiting;
  for (const wait_edge& one : now)
    if (!since.has_moved(one.on)) waiting.insert(one.who);
  std::erase_if(now, [&](const wait_edge& one) {
    const bool waits_on = one.state == wait_state::parked && waiting.contains(one.on);
    return since.has_moved(one.on) && !waits_on;
  });
  return now;
}

}  // namespace troupe::analysis
