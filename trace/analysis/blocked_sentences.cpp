#include "trace/analysis/blocked_sentences.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/units.hpp"
#include "trace/analysis/training_order.hpp"

namespace troupe::analysis {

std::string blocked_sentences::of(const end_of_chain& end) const {
  const wait_edge& one = *end.last;
  const std::string subject = subject_of(run_, one);
  const std::string on = run_.actor_name(one.on);
  const wait_edge* const call = one.call != nullptr ? &one : call_on(one.on);
  switch (end.what) {
    case blockage::never_arrived:
      return fmt::format(
          "{} ({}) was sent by {}{}, and never arrived at {}{}", name_or_some(one), subject_of_message(one),
          run_.actor_name(one.sender), one.sent ? fmt::format(" {} ago", time_text(now_ - *one.sent)) : "",
          run_.actor_name(one.receiver), is_silent_since(one) ? ", whose process has recorded nothing since then" : "");
    case blockage::ranks_missing:
      if (one.call != nullptr) return of_call(one);
      return fmt::format("communicator {}, {}: ranks {{{}}} missing while all processes live",
                         one.collective->communicator(), subject, fmt::join(one.collective->missing, ", "));
    case blockage::incomplete:
      return fmt::format("communicator {}, {}: launched by all, completed by none: network or device, not code",
                         one.collective->communicator(), subject);
    case blockage::credits_exhausted:
      return fmt::format("credits exhausted: {} ({}) of {} waits for credit from the process of {}", name_or_some(one),
                         subject_of_message(one), run_.actor_name(one.sender), run_.actor_name(one.receiver));
    case blockage::queued:
      return fmt::format("{} has arrived at {}, queued behind {} messages for {}", subject, on, one.behind,
                         time_text(now_ - one.since));
    case blockage::handler_running:
      if (call != nullptr) return of_call(*call);
      return fmt::format("{}: {}; {} actor{} waiting", on, work_of(one.on), end.waiters.size(),
                         end.waiters.size() == 1 ? "" : "s");
    case blockage::dead:
      return fmt::format("{} has ended, and {} still waits for it: {}", on, run_.actor_name(one.who), subject);
    default:
      return fmt::format("{} owes {} {}, waits for nothing and does nothing", on, run_.actor_name(one.who), subject);
  }
}

/// The first call that waits for that trainer; null: no call does.
const wait_edge* blocked_sentences::call_on(std::uint16_t actor) const {
  const auto found = std::ranges::find_if(waits_, [actor](const wait_edge& one) {
    return one.call != nullptr && one.on == actor && one.state == wait_state::unsent;
  });
  return found == waits_.end() ? nullptr : &*found;
}

/// `all_reduce #26 of trainers 0..2 (step 501): trainer 1 has not called it; it is at optimizer.step of step 502`
std::string blocked_sentences::of_call(const wait_edge& one) const {
  std::map<std::uint32_t, std::uint16_t> late;  // actors by rank
  for (const wait_edge& other : waits_)
    if (other.call != nullptr && other.state == wait_state::unsent &&
        (other.call == one.call || other.call->is_same_as(*one.call)))
      late[rank_in(run_.actor_name(other.on), "trainer").value_or(other.on)] = other.on;
  std::vector<std::uint32_t> ranks;
  std::vector<std::string> places;
  constexpr std::size_t places_max = 3;
  for (const auto& [rank, actor] : late) {
    ranks.push_back(rank);
    if (places.size() < places_max) places.push_back(place_of(actor, late.size() == 1 ? "it" : run_.actor_name(actor)));
  }
  const bool is_receipt = one.call->kind == trace::call_kind::receipt;
  return fmt::format("{}: {} {} not {} it; {}{}", subject_of(run_, one), trace::trainers_text(ranks),
                     ranks.size() == 1 ? "has" : "have",
                     is_receipt                  ? "sent"
                     : one.call->lacks_sums != 0 ? "summed"
                                                 : "called",
                     fmt::join(places, "; "), late.size() > places_max ? "; ..." : "");
}

/// Describes what that trainer is doing; the sentence begins with `name`.
std::string blocked_sentences::place_of(std::uint16_t actor, const std::string& name) const {
  const trace::actor_state* const state = run_.find_actor(actor);
  if (state == nullptr) return fmt::format("{} is not in this recording", name);
  if (!state->alive) return fmt::format("{} has ended", name);
  if (is_at_work(run_, actor))
    return fmt::format("{} is {}{}", name, is_in_own_code(actor) ? "" : "at work: ", work_of(actor));
  const auto call = std::ranges::max_element(state->calls, {}, &trace::actor_state::call::since);
  const auto request = std::ranges::max_element(state->open, {}, &trace::actor_state::request::since);
  if (request != state->open.end() && (call == state->calls.end() || call->since <= request->since)) {
    if (is_any_of<msg::reduce, msg::gradient_norm, msg::optimizer_step>(run_.type_name(request->type)))
      return fmt::format("{} is at optimizer.step of step {}", name, request->step);
    return fmt::format("{} waits for the answer of {} to {} #{}{}", name, run_.actor_name(request->peer),
                       run_.type_name(request->type), trace::sequence_of(request->id),
                       request->step == 0 ? "" : fmt::format(" (step {})", request->step));
  }
  if (call != state->calls.end())
    return fmt::format("{} is in {}{}", name, title_of(call->what),
                       call->what.step == 0 ? "" : fmt::format(" (step {})", call->what.step));
  return fmt::format("{} waits for nothing that is recorded{}", name,
                     state->step == 0 ? "" : fmt::format(", in step {}", state->step));
}

std::string blocked_sentences::work_of(std::uint16_t actor) const {
  const trace::actor_state* state = run_.find_actor(actor);
  const std::string of = state->message == 0 ? "work of its own" : run_.type_name(state->message_type);
  const std::string step = state->step == 0 ? "" : fmt::format(", step {}", state->step);
  const std::string time = time_text(std::max<trace::nanoseconds>(0, now_ - state->message_begin));
  if (is_in_own_code(actor)) return fmt::format("in its own function or loop for {} (after {}{})", time, of, step);
  return fmt::format("handler running for {} ({}{})", time, of, step);
}

/// Whether that actor is a trainer of a user's program: then what runs in its handlers is the program's own function.
bool blocked_sentences::is_in_own_code(std::uint16_t actor) const {
  const auto has_program = [](const trace::process_info& one) { return one.metadata.contains("program"); };
  return rank_in(run_.actor_name(actor), "trainer") && std::ranges::any_of(run_.processes, has_program);
}

/// Whether the receiver's process may hang instead of the message being lost.
bool blocked_sentences::is_silent_since(const wait_edge& one) const {
  const trace::actor_state* receiver = run_.find_actor(one.receiver);
  return one.sent && receiver != nullptr && run_.processes[receiver->process].last < *one.sent;
}

std::string blocked_sentences::name_or_some(const wait_edge& one) const {
  return one.message == 0 ? "a message" : run_.message_name(one.message);
}

std::string blocked_sentences::subject_of_message(const wait_edge& one) const {
  return one.step == 0 ? run_.type_name(one.type) : fmt::format("{}, step {}", run_.type_name(one.type), one.step);
}

}  // namespace troupe::analysis
