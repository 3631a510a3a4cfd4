#include "actors/common/actor_trace.hpp"

#include <algorithm>
#include <bit>
#include <chrono>

#include "actors/common/traced_system.hpp"

namespace troupe::actors {

namespace {

using trace::record;
using trace::ticks_now;

constexpr auto relaxed = std::memory_order_relaxed;

}  // namespace

void actor_trace::start(caf::abstract_actor* self, caf::actor_system& system, std::uint64_t run, std::uint32_t number,
                        const std::string& name, std::uint32_t incarnation) {
  run_ = run;
  sender_ = number;
  incarnation_ = incarnation;
  actor_ = static_cast<std::uint16_t>(number);
  if (replay_control* const all = replay_of(system)) {
    replayed_ = all->find(number);
    if (replayed_ != nullptr) replayed_->start(self->address());
  }
  trace::recorder* const recorder = recorder_of(system);
  if (recorder == nullptr || !recorder->wants_actor(name)) return;
  const bool is_again = recorder_ != nullptr;  // restarted with its number in the run, which it did not know before
  recorder_ = recorder;
  keeps_contents_ = recorder->wants_contents();
  keeps_payload_ = recorder->wants_payload(name);
  board_ = recorder->add_actor(actor_, static_cast<std::uint16_t>(incarnation), name);
  note(trace::kind::spawn, {});
  if (is_again) return;
  self->attach_functor([recorder, board = board_, actor = actor_](const caf::error& reason) {
    recorder->append({.begin = trace::ticks_now(),
                      .busy48_type16 = record::pack(0, reason ? reason.category() : 0),
                      .queued48_actor16 = record::pack(0, actor),
                      .step48_aux16 = record::pack(0, reason ? reason.code() : 0),
                      .bytes32_kind8_flags8_stamp16 = trace::pack_kind(0, trace::kind::exit, 0)});
    constexpr std::uint32_t ended = 2;
    if (board != nullptr) board->state.store(ended, relaxed);
  });
}

msg::header actor_trace::next(std::uint64_t step, msg::message_id cause, std::uint64_t sent) {
  msg::header made{run_, step, sender_, incarnation_, ++sequence_, cause};
  if (recorder_ == nullptr) return made;
  made.sent = sent;
  if (board_ != nullptr) board_->last_sent.store(sequence_, relaxed);
  if (in_hand_ != 0 && cause != in_hand_ && cause != 0)
    note(trace::kind::released,
         {.begin = made.sent, .id = msg::id_of(made), .cause = in_hand_, .step48_aux16 = record::pack(step, 0)});
  return made;
}

/// A board entry has a single writer, so it needs no atomic addition.
void actor_trace::count_dropped() {
  if (board_ != nullptr)
    board_->dropped.store(board_->dropped.load(relaxed) + 1, relaxed);
  else
    recorder_->note_dropped();
}

void actor_trace::handling::open(const msg::header& head, std::uint16_t type) {
  record_.begin = trace_.latest_ = trace::ticks_now();
  record_.sent = head.sent;
  record_.id = trace_.in_hand_;
  record_.cause = head.cause;
  record_.busy48_type16 = record::pack(0, type);
  const std::uint64_t arrived = head.arrived != 0 ? head.arrived : head.sent;
  if (head.arrived != 0) flags_ |= trace::flag::remote;
  const bool is_known = arrived != 0 && arrived <= record_.begin;
  record_.queued48_actor16 = record::pack(is_known ? record_.begin - arrived : 0, trace_.actor_);
  if (trace::board_entry* const board = trace_.board_) {
    board->message.store(trace_.in_hand_, relaxed);
    board->message_type.store(type, relaxed);
    board->message_begin.store(record_.begin, relaxed);
  }
}

void actor_trace::handling::close() {
  record_.busy48_type16 |= std::min(trace::ticks_now() - record_.begin, record::max48);
  record_.bytes32_kind8_flags8_stamp16 = trace::pack_kind(bytes_, trace::kind::handled, flags_);
  trace_.recorder_->append(record_);
  trace_.latest_ = 0;
  if (trace::board_entry* const board = trace_.board_) {
    board->message.store(0, relaxed);
    board->message_begin.store(0, relaxed);
    board->handled.store(board->handled.load(relaxed) + 1, relaxed);
  }
}

actor_trace::turn::turn(actor_trace& mine, std::uint64_t step) : trace_(mine), step_(step) {
  if (!mine.is_on()) return;
  begin_ = mine.latest_ = trace::ticks_now();
  mine.in_hand_ = mine.cause_;
  if (mine.board_ != nullptr) mine.board_->message_begin.store(begin_, relaxed);
}

actor_trace::turn::~turn() {
  if (begin_ == 0) return;
  trace_.in_hand_ = 0;
  trace_.latest_ = 0;
  trace_.note(trace::kind::timer, {.begin = begin_,
                                   .cause = trace_.cause_,
                                   .busy48_type16 = record::pack(trace::ticks_now() - begin_, 0),
                                   .step48_aux16 = record::pack(step_, 0)});
  if (trace_.board_ != nullptr) trace_.board_->message_begin.store(0, relaxed);
}

std::uint16_t actor_trace::number_of(const std::string& name) {
  if (recorder_ == nullptr) return 0;
  auto& number = given_names_[name];
  if (number == 0) number = recorder_->number_of(name);
  return number;
}

void actor_trace::note_range(trace::range_name name, std::uint64_t step, std::uint64_t begin) {
  const bool is_of_checkpoint = name >= trace::range_name::save && name <= trace::range_name::commit;
  note(is_of_checkpoint ? trace::kind::checkpoint : trace::kind::range,
       {.begin = begin,
        .id = in_hand_ != 0 ? in_hand_ : cause_,
        .busy48_type16 = record::pack(now() - begin, static_cast<std::uint16_t>(name)),
        .step48_aux16 = record::pack(step, 0)});
}

void actor_trace::step_begins(std::uint64_t step) {
  if (recorder_ == nullptr) return;
  step_ = step;
  step_begin_ = latest();
  if (board_ != nullptr && board_->step_begin.load(relaxed) == 0) on_board(step, step_begin_);
}

void actor_trace::on_board(std::uint64_t step, std::uint64_t begin) {
  if (board_ == nullptr) return;
  board_->step.store(step, relaxed);
  board_->step_begin.store(begin, relaxed);
}

void actor_trace::progresses() {
  if (board_ != nullptr) on_board(board_->step.load(relaxed), trace::ticks_now());
}

void actor_trace::step_ends(std::uint64_t next) {
  if (recorder_ == nullptr || step_begin_ == 0) return;
  const std::uint64_t begin = std::exchange(step_begin_, 0);
  const std::uint64_t end = now();
  note(trace::kind::step, {.begin = begin,
                           .id = cause_,
                           .busy48_type16 = record::pack(end - begin, 0),
                           .step48_aux16 = record::pack(step_, 0)});
  if (board_ == nullptr) return;
  const std::uint64_t taken = end - board_->step_begin.load(relaxed);
  if (taken > board_->step_longest.load(relaxed)) board_->step_longest.store(taken, relaxed);
  on_board(next, end);
}

void actor_trace::asks(const msg::header& asked, std::uint16_t type, std::uint32_t peer) {
  if (board_ == nullptr) return;
  for (trace::open_request& one : board_->open) {
    if (one.id.load(relaxed) != 0) continue;
    one.since.store(asked.sent, relaxed);
    one.type16_peer16.store(std::uint32_t{type} | peer << 16, relaxed);
    one.step.store(static_cast<std::uint32_t>(asked.step), relaxed);
    one.id.store(msg::id_of(asked), relaxed);
    return;
  }
  board_->open_more.store(board_->open_more.load(relaxed) + 1, relaxed);
}

void actor_trace::has_answer(msg::message_id asked) {
  if (board_ == nullptr) return;
  for (trace::open_request& one : board_->open) {
    if (one.id.load(relaxed) != asked) continue;
    one.id.store(0, relaxed);
    return;
  }
  if (const std::uint32_t more = board_->open_more.load(relaxed); more > 0) board_->open_more.store(more - 1, relaxed);
}

shown_call actor_trace::show(const trace::call_state& what) {
  constexpr std::size_t shown_max = 4;  // with several hundred actors on one board, further calls are not shown
  if (board_ == nullptr) return {};
  auto place = std::ranges::find_if(calls_, &trace::board_call::is_free);
  if (place == calls_.end()) {
    trace::board_call* const added = calls_.size() < shown_max ? recorder_->add_call(actor_) : nullptr;
    if (added == nullptr) return {};
    place = calls_.insert(calls_.end(), added);
  }
  (*place)->show(what);
  return shown_call(*place);
}

void actor_trace::note(trace::kind what, record with, std::uint64_t bytes) {
  if (recorder_ == nullptr) return;
  if (!recorder_->wants(0, with.step())) return count_dropped();
  if (with.begin == 0) with.begin = trace::ticks_now();
  with.queued48_actor16 = record::pack(with.queued(), actor_);
  with.bytes32_kind8_flags8_stamp16 = trace::pack_kind(bytes, what, 0);
  recorder_->append(with);
}

void actor_trace::note_drop(const caf::message& unexpected) {
  constexpr auto why = static_cast<std::uint16_t>(trace::drop_reason::unexpected);
  note(trace::kind::drop, {.busy48_type16 = record::pack(0, unexpected.empty() ? 0 : unexpected.type_at(0)),
                           .step48_aux16 = record::pack(0, why)});
}

void actor_trace::metric(trace::metric_name which, std::uint64_t step, double value) {
  note(trace::kind::metric, {.sent = std::bit_cast<std::uint64_t>(value),
                             .busy48_type16 = record::pack(0, static_cast<std::uint16_t>(which)),
                             .step48_aux16 = record::pack(step, 0)});
}

void actor_trace::note_device_work(kernels::stream_timer& of) {
  if (!of.is_on() || !is_on()) return;
  const auto spans = of.collect();
  if (spans.empty()) return;
  constexpr double ns_per_s = 1e9;
  const double ticks_per_ns = trace::ticks_per_second() / ns_per_s;
  const std::int64_t now_ns = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  const std::uint64_t now_ticks = ticks_now();
  const auto ticks_at = [&](std::int64_t ns) {
    return now_ticks - static_cast<std::uint64_t>(static_cast<double>(now_ns - ns) * ticks_per_ns);
  };
  for (const auto& [what, step, begin, end] : spans)
    note(trace::kind::device_range, {.begin = ticks_at(begin),
                                     .busy48_type16 = record::pack(ticks_at(end) - ticks_at(begin), what),
                                     .step48_aux16 = record::pack(step, static_cast<std::uint16_t>(of.device()))});
}

}  // namespace troupe::actors
