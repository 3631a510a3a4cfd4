#include "trace/replay/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

#include "protocol/errors.hpp"
#include "protocol/message_types.hpp"
#include "trace/analysis/contents.hpp"

namespace troupe::replay {

namespace {

/// Ends the actor, and with it the run, before it handles another message.
void end_with(const caf::actor_addr& who, std::string text) {
  if (auto actor = caf::actor_cast<caf::actor>(who))
    caf::anon_send<caf::message_priority::high>(
        actor, caf::exit_msg{nullptr, protocol::make_failure(protocol::errc::wrong_context, std::move(text))});
}

}  // namespace

// -- one actor ------------------------------------------------------------------------

replayed_actor::replayed_actor(replay& all, std::uint16_t number, const std::vector<expected_message>* expected)
    : all_(all), number_(number), expected_(expected) {
  for (std::size_t place = 0; place < expected->size(); ++place) {
    const actors::replay_key& key = (*expected)[place].key;
    by_key_[key].places.push_back(place);
    if (!protocol::traits_by_id(key.type).ordered) continue;
    ordered_.push_back(place);
    by_sender_[key.sender].push_back(place);
  }
}

void replayed_actor::start(const caf::actor_addr& self) {
  const std::lock_guard lock(all_.mutex_);
  self_ = self;
}

void replayed_actor::hold(const msg::header& head, std::uint16_t type, caf::mailbox_element_ptr message) {
  all_.held_back_.store(true, std::memory_order_relaxed);
  held_.push_back({msg::id_of(head), actors::replay_key_of(number_, head, type, 0), std::move(message)});
}

bool replayed_actor::may_handle(const msg::header& head, std::uint16_t type) {
  const msg::message_id id = msg::id_of(head);
  if (released_ != 0 && id == released_) {
    released_ = 0;
    ++next_;
    return true;
  }
  const actors::replay_key key = actors::replay_key_of(number_, head, type, 0);
  if (is_client(all_.recorded_, key.sender)) return true;
  const std::vector<std::size_t>& of_sender = by_sender_[key.sender];
  const std::size_t come = come_[key.sender]++;
  if (come >= of_sender.size()) {
    if (all_.order_.is_whole)
      all_.differs(self_, fmt::format("{} came, and no such message is recorded", all_.description_of(key)));
    return false;  // it comes after the end of the recording
  }
  if (const actors::replay_key& recorded = (*expected_)[of_sender[come]].key; recorded != key) {
    all_.differs(self_,
                 fmt::format("{} came where {} is recorded", all_.description_of(key), all_.description_of(recorded)));
    return false;
  }
  if (released_ != 0 || (*expected_)[ordered_[next_]].key != key) return false;
  ++next_;
  return true;
}

caf::mailbox_element_ptr replayed_actor::take_next() {
  if (next_ == ordered_.size()) return nullptr;
  const actors::replay_key& wanted = (*expected_)[ordered_[next_]].key;
  const auto found = std::ranges::find_if(held_, [&](const auto& one) { return one.key == wanted; });
  if (found == held_.end()) return nullptr;
  released_ = found->id;
  caf::mailbox_element_ptr message = std::move(found->message);
  held_.erase(found);
  return message;
}

void replayed_actor::compare(const msg::header& head, std::uint16_t type, std::uint16_t aux,
                             const trace::content& now) {
  const actors::replay_key key = actors::replay_key_of(number_, head, type, aux);
  if (is_client(all_.recorded_, key.sender)) return;
  const auto found = by_key_.find(key);
  if (found == by_key_.end() || found->second.next == found->second.places.size()) {
    if (all_.order_.is_whole)
      all_.differs(self_, fmt::format("{} came, and no such message is recorded", all_.description_of(key)));
    return;
  }
  const expected_message& recorded = (*expected_)[found->second.places[found->second.next++]];
  if (recorded.held != nullptr) {
    // Buckets also carry requests to stop and to save, which a replay does not have.
    const protocol::message_traits& traits = protocol::traits_by_id(type);
    const bool with_fields = !traits.by_bucket || (all_.order_.is_whole && traits.diff == protocol::comparable::whole);
    const std::uint64_t digest = recorded.held->fields_digest;
    std::string text = analysis::compare_parts(*recorded.held, now, "recorded", "now");
    if (text.empty() && with_fields && digest != now.fields_digest)
      text = fmt::format("fields differ (digest {:016x} recorded, {:016x} now)", digest, now.fields_digest);
    if (!text.empty())
      return all_.differs(self_, fmt::format("{}, recorded as {}: {}", all_.description_of(key),
                                             all_.recorded_.message_name(recorded.id), text));
  }
  all_.count(self_, recorded.held != nullptr);
}

std::string replayed_actor::waits_for() const {
  const std::size_t next = next_;
  return next < ordered_.size() ? all_.description_of((*expected_)[ordered_[next]].key) : "";
}

// -- all of them ----------------------------------------------------------------------

replay::replay(const replay_order& order, const trace::recording& from) : order_(order), recorded_(from) {
  for (const auto& [number, expected] : order.by_receiver) {
    expected_ += expected.size();
    actors_.emplace(number, std::make_unique<replayed_actor>(*this, number, &expected));
  }
}

replayed_actor* replay::find(std::uint32_t actor) {
  const auto found = actors_.find(static_cast<std::uint16_t>(actor));
  return found == actors_.end() ? nullptr : found->second.get();
}

std::string replay::description_of(const actors::replay_key& key) const {
  const std::string bucket = protocol::traits_by_id(key.type).by_bucket ? fmt::format(", bucket {}", key.bucket) : "";
  return fmt::format("step {}{}: {} from {} to {}", key.step, bucket, protocol::message_name(key.type),
                     recorded_.actor_name(key.sender), recorded_.actor_name(key.receiver));
}

void replay::differs(const caf::actor_addr& noticed, std::string text) {
  {
    const std::lock_guard lock(mutex_);
    if (!difference_.empty()) return;
    difference_ = text;
  }
  end_with(noticed, std::move(text));
}

void replay::count(const caf::actor_addr& self, bool has_content) {
  if (has_content) compared_.fetch_add(1, std::memory_order_relaxed);
  const bool is_last = handled_.fetch_add(1, std::memory_order_relaxed) + 1 == expected_;
  if (!is_last || order_.is_whole) return;
  end_with(self, "the recording ends here");
}

void replay::give_up() {
  std::string text = "no further message comes";
  caf::actor_addr anybody;
  for (const auto& [number, one] : actors_) {
    const std::string missing = one->waits_for();
    const std::lock_guard lock(mutex_);
    if (one->self_) anybody = one->self_;
    if (missing.empty()) continue;
    text = fmt::format("{} does not come", missing);
    break;
  }
  differs(anybody, std::move(text));
}

std::string replay::difference() const {
  const std::lock_guard lock(mutex_);
  return difference_;
}

}  // namespace troupe::replay
