// An actor's own trace: it numbers the messages that the actor sends, writes a record for each message handled, and
// updates the actor's board entry, which always shows what the actor does and what it waits for.

#pragma once

#include <caf/all.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "actors/common/faults.hpp"
#include "actors/common/replay_gate.hpp"
#include "kernels/stream_timer.hpp"
#include "protocol/header.hpp"
#include "protocol/message_content.hpp"
#include "trace/record/board_call.hpp"
#include "trace/record/recorder.hpp"

namespace troupe::actors {

/// A call shown on the board for this object's lifetime. Belongs to the actor that makes the call.
class shown_call {
 public:
  shown_call() = default;
  explicit shown_call(trace::board_call* place) : place_(place) {}
  shown_call(shown_call&& other) noexcept : place_(std::exchange(other.place_, nullptr)) {}
  shown_call& operator=(shown_call&& other) noexcept {
    std::swap(place_, other.place_);
    return *this;
  }
  ~shown_call() {
    if (place_ != nullptr) place_->clear();
  }

  explicit operator bool() const { return place_ != nullptr; }
  void show(const trace::call_state& what) const { place_->show(what); }

 private:
  trace::board_call* place_ = nullptr;
};

/// Belongs to one actor. Records nothing before `start`, or if the actor system has no recorder.
class actor_trace {
 public:
  /// `number`: the actor's number within the run.
  void start(caf::abstract_actor* self, caf::actor_system& system, std::uint64_t run, std::uint32_t number,
             const std::string& name, std::uint32_t incarnation = 0);

  /// The header of the next message. `cause`: the message being handled, or the one that this message answers.
  msg::header next(std::uint64_t step, msg::message_id cause) { return next(step, cause, now_if_on()); }
  /// The same, caused by the last message that was handled.
  msg::header next(std::uint64_t step) { return next(step, cause_, now_if_on()); }
  /// The same, sent at `sent`: 0, or a value of `latest`.
  msg::header next(std::uint64_t step, msg::message_id cause, std::uint64_t sent);

  /// The message being handled, or else the last one that was.
  msg::message_id cause() const { return cause_; }
  bool is_on() const { return recorder_ != nullptr; }
  /// Returns whether another thread reads the messages' contents after their handlers have run.
  bool keeps_contents() const { return keeps_contents_; }
  /// When the actor last read the clock for its current work, in ticks: close to now, and cheaper. It is no earlier
  /// than the start of the current message, or than the last record. 0: nothing is recorded.
  std::uint64_t latest() const { return latest_ != 0 ? latest_ : is_on() ? trace::ticks_now() : 0; }
  /// The gate that holds the actor to a recorded order; null: the run is no replay.
  replay_gate* replayed() const { return replayed_; }

  /// A message is being handled during this object's lifetime.
  class handling {
   public:
    template <class Message>
    handling(actor_trace& mine, const Message& message, std::uint8_t flags) : trace_(mine) {
      if constexpr (protocol::traits_v<Message>.replayed)
        if (mine.replayed_ != nullptr)
          mine.replayed_->compare(message.head, caf::type_id_v<Message>, aux_of(message),
                                  protocol::content_of(message, false));
      if (!mine.begin(message.head, caf::type_id_v<Message>)) return;
      record_.step48_aux16 = trace::record::pack(message.head.step, aux_of(message));
      bytes_ = protocol::weight_of(message);
      flags_ = flags;
      if (mine.keeps_contents_) mine.keep(message, bytes_);
      is_recorded_ = true;
      open(message.head, caf::type_id_v<Message>);
    }
    ~handling() {
      if (is_recorded_) close();
      trace_.in_hand_ = 0;
    }
    handling(const handling&) = delete;

    /// Notes the handler's result.
    template <class T>
    void note(const caf::result<T>& answer) {
      if (caf::holds_alternative<caf::error>(answer.get_data()))
        flags_ |= trace::flag::refused;
      else if (!std::is_void_v<T> && caf::holds_alternative<caf::delegated<T>>(answer.get_data()))
        flags_ |= trace::flag::parked;
    }

   private:
    void open(const msg::header& head, std::uint16_t type);
    void close();

    actor_trace& trace_;
    trace::record record_;
    std::uint64_t bytes_ = 0;
    std::uint8_t flags_ = 0;
    bool is_recorded_ = false;
  };

  /// During its lifetime, the actor does deferred work that no current message asks for.
  class turn {
   public:
    explicit turn(actor_trace& mine, std::uint64_t step);
    ~turn();
    turn(const turn&) = delete;

   private:
    actor_trace& trace_;
    std::uint64_t begin_ = 0;
    std::uint64_t step_;
  };

  /// During its lifetime, the actor is in a named range of work.
  class range {
   public:
    range(actor_trace& mine, trace::range_name name, std::uint64_t step)
        : range(mine, name, step, mine.is_on() ? mine.now() : 0) {}
    /// `begin`: the range begins at the actor's last clock reading (see `latest`).
    range(actor_trace& mine, trace::range_name name, std::uint64_t step, std::uint64_t begin)
        : trace_(mine), name_(name), step_(step), begin_(begin) {}
    ~range() {
      if (begin_ != 0) trace_.note_range(name_, step_, begin_);
    }
    range(const range&) = delete;

   private:
    actor_trace& trace_;
    trace::range_name name_;
    std::uint64_t step_;
    std::uint64_t begin_;
  };

  /// Returns the number of a program's name for its work or metrics, for `range`, `asks` and `metric`. Cheap for a
  /// known name.
  std::uint16_t number_of(const std::string& name);
  trace::range_name given_range(const std::string& name) { return static_cast<trace::range_name>(number_of(name)); }
  trace::metric_name given_metric(const std::string& name) { return static_cast<trace::metric_name>(number_of(name)); }

  // -- trainers only ------------------------------------------------------------------

  /// `step_begins`: the rows of a step have arrived. `step_ends`: the step is done and `next` is awaited; writes its
  /// record.
  void step_begins(std::uint64_t step);
  void step_ends(std::uint64_t next);
  /// Reports work outside any step as progress, so that the watchdog does not see a slow step.
  void progresses();
  /// There are no further steps.
  void rests() { on_board(step_, 0); }

  // -- requests -------------------------------------------------------------------------

  /// Notes that `asked` has been sent to `peer`, whose answer is pending.
  void asks(const msg::header& asked, std::uint16_t type, std::uint32_t peer);
  /// Notes that the answer has come, or never will.
  void has_answer(msg::message_id asked);

  /// Shows a call to other actors; returns an empty object if the board has no room, or nothing is recorded.
  shown_call show(const trace::call_state& what);

  // -- other records -------------------------------------------------------------------

  /// Writes a record of another kind. `with`: all fields but kind and actor, and but `begin` if that is now.
  void note(trace::kind what, trace::record with, std::uint64_t bytes = 0);
  void note_drop(const caf::message& unexpected);
  void metric(trace::metric_name which, std::uint64_t step, double value);
  /// Writes a record of each finished span; a span's meaning is a range_name. Does not wait for the device.
  void note_device_work(kernels::stream_timer& of);

 private:
  static std::uint16_t aux_of(const auto& message) {
    if constexpr (requires { message.bucket; })
      return static_cast<std::uint16_t>(message.bucket);
    else if constexpr (requires { message.missing; })
      return static_cast<std::uint16_t>(message.missing);
    else if constexpr (requires { message.rank; })
      return static_cast<std::uint16_t>(message.rank);
    else
      return 0;
  }

  /// Reads the clock.
  std::uint64_t now() {
    const std::uint64_t ticks = trace::ticks_now();
    if (latest_ != 0) latest_ = ticks;
    return ticks;
  }
  std::uint64_t now_if_on() { return is_on() ? now() : 0; }
  void count_dropped();
  void on_board(std::uint64_t step, std::uint64_t begin);
  /// Returns false if the message is not to be recorded.
  bool begin(const msg::header& head, std::uint16_t type) {
    cause_ = in_hand_ = msg::id_of(head);
    if (recorder_ == nullptr) return false;
    if (recorder_->wants(type, head.step)) [[likely]]
      return true;
    count_dropped();
    return false;
  }
  void note_range(trace::range_name name, std::uint64_t step, std::uint64_t begin);

  template <class Message>
  void keep(const Message& message, std::uint64_t bytes) {
    const auto make = [actor = actor_, with_bytes = keeps_payload_](const Message& of) {
      trace::content made = protocol::content_of(of, with_bytes);
      made.actor = actor;
      return made;
    };
    if (protocol::is_on_device(message))
      recorder_->keep({[made = make(message)] { return made; }, bytes});
    else
      recorder_->keep({[message, make] { return make(message); }, bytes});
  }

  replay_gate* replayed_ = nullptr;
  trace::recorder* recorder_ = nullptr;
  trace::board_entry* board_ = nullptr;
  std::uint16_t actor_ = 0;
  bool keeps_contents_ = false;
  bool keeps_payload_ = false;
  std::uint64_t run_ = 0;
  std::uint32_t sender_ = 0;
  std::uint32_t incarnation_ = 0;
  std::uint64_t sequence_ = 0;
  msg::message_id cause_ = 0;
  msg::message_id in_hand_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t step_begin_ = 0;
  std::uint64_t latest_ = 0;  ///< 0: the actor is idle, or its work is not recorded
  std::map<std::string, std::uint16_t> given_names_;
  std::vector<trace::board_call*> calls_;  ///< this actor's board entries for calls
};

/// The result of a handler whose promise is fulfilled elsewhere.
template <class T>
caf::result<T> answered_elsewhere(std::type_identity<caf::result<T>>) {
  return caf::delegated<T>{};
}

/// Returns whether `self` may handle `message` now; if not, holds the message until its turn comes.
template <class Message, class Self>
bool has_turn(Self* self, const Message& message) {
  replay_gate* const order = self->state.trace.replayed();
  if (order == nullptr || order->may_handle(message.head, caf::type_id_v<Message>)) return true;
  auto sender = self->current_sender();
  const auto id = self->take_current_message_id();
  order->hold(message.head, caf::type_id_v<Message>,
              caf::make_mailbox_element(std::move(sender), id, self->take_current_forwarding_stack(), message));
  return false;
}

/// Returns the next held message to the mailbox if its turn has come.
void let_next_come(auto* self) {
  if (replay_gate* const order = self->state.trace.replayed())
    if (auto next = order->take_next()) self->enqueue(std::move(next), self->context());
}

/// A handler of messages of one type for an actor whose state handles them and has an `actor_trace trace`.
template <class Message, class Self>
auto recorded(Self* self) {
  return [self](Message& message) {
    using answer_type = decltype(self->state.handle(message));
    constexpr bool has_answer = !std::is_void_v<answer_type>;
    if constexpr (protocol::traits_v<Message>.ordered) {
      if (!has_turn(self, message)) return answered_elsewhere(std::type_identity<answer_type>());
      let_next_come(self);  // after this one
    }
    if (auto* wrong = faults()) wrong->handles(self->state.name, caf::type_id_v<Message>);
    const std::uint8_t flags = has_answer ? trace::flag::request : 0;
    actor_trace::handling scope(self->state.trace, message, flags);
    if constexpr (has_answer) {
      auto answer = self->state.handle(message);
      scope.note(answer);
      return answer;
    } else {
      self->state.handle(message);
    }
  };
}

/// Makes `self` drop unexpected messages, which a peer may send at will: each gets a record, but no line of output.
void drop_unexpected(auto* self) {
  self->set_default_handler([self](caf::message& unexpected) -> caf::skippable_result {
    self->state.trace.note_drop(unexpected);
    return caf::make_error(caf::sec::unexpected_message);
  });
}

}  // namespace troupe::actors
