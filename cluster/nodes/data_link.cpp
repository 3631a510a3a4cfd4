#include "cluster/nodes/data_link.hpp"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "actors/common/faults.hpp"
#include "actors/common/traced_system.hpp"
#include "base/mapped.hpp"
#include "cluster/nodes/link_proxies.hpp"
#include "protocol/errors.hpp"
#include "protocol/message_types.hpp"

namespace troupe::nodes {

namespace {

enum frame_kind : std::uint8_t { message_kind = links::link::first_user_kind, answer_kind, failure_kind, credit_kind };

/// Marks the ids of messages without an answer, so that the link learns when a local actor has handled them.
constexpr std::uint64_t handling_flag = std::uint64_t{1} << 59;

std::vector<links::piece> to_pieces(const std::vector<msg::blob>& parts) {
  return mapped(parts, [](const msg::blob& part) { return links::piece{part.owner(), part.data(), part.size()}; });
}

std::uint64_t bytes_of(const std::vector<msg::blob>& parts) {
  std::uint64_t bytes = 0;
  for (const msg::blob& part : parts) bytes += part.size();
  return bytes;
}

caf::error malformed(std::string text) { return protocol::make_failure(protocol::errc::malformed, std::move(text)); }

/// Returns what to try if a message of that type is too long.
const char* how_to_shorten(caf::type_id_t type) {
  const auto is_any_of = [type]<class... T>(boost::mp11::mp_list<T...>) {
    return ((type == caf::type_id_v<T>) || ...);
  };
  if (is_any_of(boost::mp11::mp_list<msg::bucket_share, msg::bucket_sum>()))
    return "a smaller network (--hidden, --layers) or smaller buckets (--bucket-mib)";
  if (is_any_of(boost::mp11::mp_list<msg::collective_share, msg::collective_sum, msg::peer_tensor>()))
    return "smaller tensors, one after another";
  return "smaller batches (--batch-size), narrower tables (--dim), or more --servers";
}

}  // namespace

data_link::data_link(caf::actor_system& system, links::link_ptr wire, std::shared_ptr<actors::inline_execution> unit,
                     std::shared_ptr<actor_directory> actors, options how)
    : system_(system),
      wire_(std::move(wire)),
      unit_(std::move(unit)),
      actors_(std::move(actors)),
      how_(std::move(how)),
      trace_(actors::recorder_of(system), how_.node),
      frames_{.sent = &sent_blobs_, .narrows = how_.narrows, .bytes_max = how_.message_bytes_max} {}

void data_link::start(std::function<void(const std::string&)> on_lost) {
  on_lost_ = std::move(on_lost);
  trace_.up();
  replies_ = make_in<reply_proxy>(system_, weak_from_this());
  wire_->start({.on_frame =
                    [me = weak_from_this()](links::received_frame&& frame) {
                      if (const auto self = me.lock()) self->received(std::move(frame));
                    },
                .on_end =
                    [me = weak_from_this()](const fault* why) {
                      if (const auto self = me.lock()) self->lost(why != nullptr ? why->message : "it has ended");
                    }});
}

caf::strong_actor_ptr data_link::make_proxy(std::uint32_t number) {
  return make_in<link_proxy>(system_, weak_from_this(), number);
}

void data_link::close() {
  wire_->close();
  fail_pending("the link to it has been closed");
}

std::size_t data_link::waiting_for_credit() const {
  const std::lock_guard lock(mutex_);
  return uncredited_.size();
}

/// Used in error texts only, so a lost race does no harm.
void data_link::note_step(std::uint64_t step) {
  if (step > newest_step()) newest_step_.store(step, std::memory_order_relaxed);
}

// -- from here to there ---------------------------------------------------------

void data_link::forward(std::uint32_t number, caf::strong_actor_ptr sender, caf::message_id id,
                        const caf::message& content) {
  protocol::envelope head{0, number};
  const auto about = protocol::head_of(content);
  if (!about) {
    trace_.dropped(trace::drop_reason::not_carried, content.empty() ? 0 : content.type_at(0), {});
    if (id.is_request() && sender)
      sender->enqueue(
          nullptr, id.response_id(),
          caf::make_message(protocol::make_failure(protocol::errc::bad_input, "a message that no data link carries")),
          nullptr);
    return;
  }
  note_step(about->second.step);
  if (!id.is_request()) {
    // The lookup of the next step follows at once.
    const bool more_follows = about->first == caf::type_id_v<msg::gradient> && unit_->runs_caller();
    if (more_follows)
      unit_->before_end([me = weak_from_this()] {
        if (const auto self = me.lock()) self->wire_->flush();
      });
    auto parts = *protocol::to_frame(head, content, frames_);
    if (auto error = check_length(about->first, about->second.step, parts); error && sender) {
      // No actor waits for an answer: end the sender, which cannot continue.
      caf::exit_msg end{sender->address(), std::move(error)};
      sender->enqueue(nullptr, caf::make_message_id(), caf::make_message(std::move(end)), nullptr);
      return;
    }
    trace_.passes(trace::kind::sent, about->first, about->second, number, 0, bytes_of(parts));
    if (auto* wrong = actors::faults(); wrong != nullptr && wrong->loses(about->second, about->first)) return;
    return send_with_credit(about->second, std::move(parts), more_follows);
  }

  pending_request request{std::move(sender), id.response_id(),  clock::now() + how_.request_timeout, number,
                          about->first,      about->second.step};
  std::unique_lock lock(mutex_);
  if (ended_) {
    lock.unlock();
    return refuse(request, protocol::errc::peer_failed,
                  fmt::format("{} is gone: {}; {} cannot be asked", how_.peer, why_ended_, question(request)));
  }
  head.request = next_request_++;
  pending_.emplace(head.request, std::move(request));
  lock.unlock();
  auto parts = *protocol::to_frame(head, content, frames_);
  if (auto error = check_length(about->first, about->second.step, parts)) {
    if (const auto refused = take_pending(head.request)) deliver(*refused, caf::make_message(std::move(error)));
    return;
  }
  trace_.passes(trace::kind::sent, about->first, about->second, number, trace::flag::request, bytes_of(parts));
  if (auto* wrong = actors::faults(); wrong != nullptr && wrong->loses(about->second, about->first)) return;
  wire_->send(message_kind, to_pieces(parts));
}

caf::error data_link::check_length(caf::type_id_t type, std::uint64_t step, const std::vector<msg::blob>& parts) const {
  const std::uint64_t bytes = bytes_of(parts);
  if (bytes <= how_.message_bytes_max) return {};
  return protocol::make_failure(protocol::errc::bad_input, "{} of step {} for {} has {} bytes, the limit is {}; try {}",
                                protocol::message_name(type), step, how_.peer, bytes, how_.message_bytes_max,
                                how_to_shorten(type));
}

/// The receiver returns credit in portions, and may keep back less than one: so much in flight blocks no message.
bool data_link::has_credit(std::uint64_t bytes) const {
  return in_flight_ < portion() || in_flight_ + bytes <= how_.window_bytes;
}

void data_link::send_with_credit(const msg::header& about, std::vector<msg::blob> parts, bool more_follows) {
  const std::uint64_t bytes = bytes_of(parts);
  // Held while sending: later messages must not overtake those that wait for credit.
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  if (!uncredited_.empty() || !has_credit(bytes)) {
    trace_.waits_for_credit(about, in_flight_);
    uncredited_.push_back({about, std::move(parts), bytes});
    return;
  }
  in_flight_ += bytes;
  wire_->send(message_kind, to_pieces(parts), more_follows);
}

caf::error data_link::take_credit(const msg::blob& body) {
  std::uint64_t bytes = 0;
  if (body.size() != sizeof bytes) return malformed("a credit of no number of bytes");
  std::memcpy(&bytes, body.data(), sizeof bytes);
  const std::lock_guard lock(mutex_);
  if (bytes > in_flight_) return malformed(fmt::format("a credit of {} bytes, {} are under way", bytes, in_flight_));
  in_flight_ -= bytes;
  trace_.credited(bytes, in_flight_);
  while (!uncredited_.empty() && has_credit(uncredited_.front().bytes)) {
    in_flight_ += uncredited_.front().bytes;
    wire_->send(message_kind, to_pieces(uncredited_.front().parts));
    uncredited_.pop_front();
  }
  return {};
}

// -- from there to here ---------------------------------------------------------

void data_link::received(links::received_frame&& frame) {
  const msg::blob body(frame.memory, frame.memory.get(), frame.size);
  caf::error problem;
  switch (frame.kind) {
    case message_kind:
      problem = take_message(body);
      break;
    case answer_kind:
    case failure_kind:
      problem = take_answer(body, frame.kind == failure_kind);
      break;
    case credit_kind:
      problem = take_credit(body);
      break;
    default:
      problem = malformed(fmt::format("a frame of kind {}", frame.kind));
  }
  run_woken();
  if (!problem) return;
  wire_->close();
  lost(fmt::format("it sent {}", protocol::describe(problem)));
}

/// Runs the actors that a frame has woken. Slow actors move to worker threads from now on.
void data_link::run_woken() {
  constexpr std::chrono::milliseconds long_for_others{200};
  const auto begin = clock::now();
  unit_->run();
  if (woken_ && clock::now() - begin >= long_for_others) actors_->note_slow(*woken_);
  woken_.reset();
}

/// Returns where to run the receiver of a message of `bytes` bytes: the link's thread, or null for the workers.
caf::execution_unit* data_link::context_for(std::uint64_t bytes) {
  constexpr std::uint64_t small = std::uint64_t{1} << 20;  // handling takes no longer than arriving
  return bytes <= small ? unit_.get() : nullptr;
}

caf::error data_link::take_message(const msg::blob& body) {
  auto read = protocol::from_frame(body, &kept_blobs_);
  if (!read) return read.error();
  auto& [head, content] = *read;
  const auto target = actors_->find(head.actor);
  if (!target) return malformed(fmt::format("a message for actor {}, which is not here", head.actor));
  // CAF uses the higher bits of a message's id.
  if (head.request >= handling_flag) return malformed(fmt::format("a request of number {}", head.request));
  const auto about = protocol::head_of(content);
  if (about)
    trace_.passes(trace::kind::arrived, about->first, about->second, head.actor,
                  head.request != 0 ? trace::flag::request : 0, body.size());
  const bool is_call = about && about->first == caf::type_id_v<msg::call>;  // it may make a module of a user's type
  std::uint64_t id = head.request;
  caf::execution_unit* context = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const bool is_request = id != 0;
    if (!is_request) id = handling_flag | next_handling_++;
    handling_.emplace(id, handling{head.actor, is_request ? 0 : body.size(), clock::now()});
    if (!is_call) context = context_of(head.actor, body.size());
  }
  if (context != nullptr) woken_ = head.actor;
  target->enqueue(replies_, caf::make_message_id(id), std::move(content), context);
  return {};
}

/// A slow actor must not block the link's thread, on which others wait. One message says little about the next: only
/// the last gradient of a step updates whole tables.
caf::execution_unit* data_link::context_of(std::uint32_t actor, std::uint64_t bytes) {
  constexpr std::uint32_t trusted_after = 16;
  const auto known = quick_.find(actor);
  if (known == quick_.end() || known->second < trusted_after || actors_->is_slow(actor)) return nullptr;
  return context_for(bytes);
}

void data_link::answered(caf::message_id id, const caf::message& content) {
  const std::uint64_t request = id.request_id().integer_value();
  handled(request);
  if ((request & handling_flag) != 0) return;
  const protocol::envelope head{request, 0};
  caf::error failure;
  if (const auto about = protocol::head_of(content)) {
    note_step(about->second.step);
    auto parts = *protocol::to_frame(head, content);
    failure = check_length(about->first, about->second.step, parts);
    const std::uint32_t asker = trace::sender_of(about->second.cause);
    trace_.passes(trace::kind::sent, about->first, about->second, asker, trace::flag::answer, bytes_of(parts));
    if (!failure) return wire_->send(answer_kind, to_pieces(parts));
  } else {
    failure = content.match_elements<caf::error>()
                  ? content.get_as<caf::error>(0)
                  : protocol::make_failure(protocol::errc::exception, "an answer that no data link carries");
  }
  wire_->send(failure_kind, to_pieces(protocol::to_failure_frame(head, failure)));
}

/// A local actor has finished a message. Returns credit in portions, so that not every message costs a frame.
void data_link::handled(std::uint64_t id) {
  constexpr std::chrono::milliseconds quick{50};
  std::uint64_t bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto known = handling_.find(id);
    if (known == handling_.end()) return;
    const handling done = known->second;
    handling_.erase(known);
    const bool was_quick = clock::now() - done.begin < quick;
    // A slow answer may have waited for other actors.
    if (was_quick) ++quick_[done.actor];
    if (!was_quick && done.bytes > 0) actors_->note_slow(done.actor);
    credit_to_return_ += done.bytes;
    if (credit_to_return_ < portion()) return;
    bytes = std::exchange(credit_to_return_, 0);
  }
  wire_->send(credit_kind, to_pieces({msg::blob::own(std::vector<std::uint64_t>{bytes})}));
}

caf::error data_link::take_answer(const msg::blob& body, bool failure) {
  protocol::envelope head;
  caf::message content;
  if (failure) {
    auto read = protocol::from_failure_frame(body);
    if (!read) return read.error();
    head = read->first;
    content = caf::make_message(std::move(read->second));
  } else {
    auto read = protocol::from_frame(body);
    if (!read) return read.error();
    std::tie(head, content) = std::move(*read);
    if (const auto about = protocol::head_of(content))
      trace_.passes(trace::kind::arrived, about->first, about->second, trace::sender_of(about->second.cause),
                    trace::flag::answer, body.size());
  }
  // Null: it has timed out.
  if (const auto request = take_pending(head.request)) deliver(*request, std::move(content), context_for(body.size()));
  return {};
}

/// Removes and returns a request that waits for its answer.
std::optional<data_link::pending_request> data_link::take_pending(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  const auto known = pending_.find(id);
  if (known == pending_.end()) return std::nullopt;
  std::optional<pending_request> taken = std::move(known->second);
  pending_.erase(known);
  return taken;
}

void data_link::deliver(const pending_request& request, caf::message content, caf::execution_unit* context) {
  if (request.sender) request.sender->enqueue(nullptr, request.response, std::move(content), context);
}

void data_link::refuse(const pending_request& request, protocol::errc why, std::string text) {
  deliver(request, caf::make_message(protocol::make_failure(why, std::move(text))));
}

// -- the end ----------------------------------------------------------------------

std::string data_link::question(const pending_request& request) const {
  return fmt::format(fmt::runtime(request.step == 0 ? "{}" : "{} of step {}"), protocol::message_name(request.type),
                     request.step);
}

void data_link::expire(clock::time_point now) {
  std::vector<pending_request> late;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(pending_, [&](auto& one) {
      if (one.second.deadline > now) return false;
      late.push_back(std::move(one.second));
      return true;
    });
  }
  for (const pending_request& one : late)
    refuse(one, protocol::errc::timeout,
           fmt::format("{} did not answer {} within {} s; --request-timeout allows more", how_.peer, question(one),
                       how_.request_timeout.count() / 1000.0));
}

void data_link::postpone(clock::duration time) {
  const std::lock_guard lock(mutex_);
  for (auto& [number, request] : pending_) request.deadline += time;
}

void data_link::lost(const std::string& why) {
  trace_.down();
  fail_pending(why);
  if (const auto report = std::exchange(on_lost_, nullptr)) report(why);
}

void data_link::fail_pending(const std::string& why) {
  std::unordered_map<std::uint64_t, pending_request> unanswered;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(ended_, true)) return;
    why_ended_ = why;
    unanswered.swap(pending_);
    uncredited_.clear();
    handling_.clear();
  }
  for (const auto& [id, one] : unanswered)
    refuse(one, protocol::errc::peer_failed,
           fmt::format("{} is gone: {}; {} is unanswered", how_.peer, why, question(one)));
}

}  // namespace troupe::nodes
