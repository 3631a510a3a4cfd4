// What actors record: their messages, what they wait for, and the consequences.

#include <gtest/gtest.h>

#include <caf/all.hpp>
#include <filesystem>
#include <memory>

#include "actors/common/actor_name.hpp"
#include "actors/common/actor_trace.hpp"
#include "actors/common/traced_system.hpp"
#include "protocol/errors.hpp"
#include "protocol/message_types.hpp"
#include "protocol/messages.hpp"
#include "tests/trace/temporary_folder.hpp"
#include "trace/analysis/blocked.hpp"
#include "trace/record/recording.hpp"
#include "trace/record/trace_file.hpp"

namespace troupe::actors::traced_actors_test {
namespace {

/// An actor system that records in a folder of its own.
class TracedActors : public testing::Test {
 protected:
  TracedActors() {
    protocol::initialize_types();
    trace::recorder::options how;
    how.folder = folder_.path();
    how.types = traced_types();
    recorder_ = std::move(*trace::recorder::start(how));
    recorder_->set_run(1, 0, 0);
    config_.config_file_path.clear();
    config_.recorder = recorder_.get();
    system_ = std::make_unique<caf::actor_system>(config_);
  }

  trace::recording read() const { return *trace::read_recording({{folder_.path()}, 0}); }

  trace::temporary_folder folder_;
  std::unique_ptr<trace::recorder> recorder_;
  traced_config config_;
  std::unique_ptr<caf::actor_system> system_;
};

/// Answers only once it has the answer to its own request to another actor.
struct stubborn_state {
  std::string name;
  std::uint64_t step = 1;
  actor_trace trace;
  std::vector<caf::response_promise> unanswered;
};

using stubborn_actor =
    caf::typed_actor<caf::result<msg::committed>(msg::optimizer_step),
                     caf::result<msg::squared_norm>(msg::gradient_norm), caf::result<void>(msg::stop)>;

template <class Question, class Answer>
stubborn_actor::behavior_type stubborn(stubborn_actor::stateful_pointer<stubborn_state> self, std::uint32_t number,
                                       const std::shared_ptr<stubborn_actor>& other, std::uint32_t other_number) {
  self->state.name = "server " + std::to_string(number - server_number(0));
  self->state.trace.start(self, self->system(), 1, number, self->state.name);
  return {
      [self](msg::optimizer_step&) -> caf::result<msg::committed> {
        return self->state.unanswered.emplace_back(self->make_response_promise());
      },
      [self](msg::gradient_norm&) -> caf::result<msg::squared_norm> {
        return self->state.unanswered.emplace_back(self->make_response_promise());
      },
      [self, other, other_number](msg::stop& order) {
        const actor_trace::handling scope(self->state.trace, order, 0);
        Question question;
        question.head = self->state.trace.next(1);
        self->state.trace.asks(question.head, caf::type_id_v<Question>, other_number);
        self->request(*other, caf::infinite, question).then([](const Answer&) {}, [](const caf::error&) {});
      },
  };
}

TEST_F(TracedActors, TwoThatWaitForEachOtherAreACycleWithBothTypes) {
  const auto first = std::make_shared<stubborn_actor>();
  const auto second = std::make_shared<stubborn_actor>();
  *first = system_->spawn(stubborn<msg::optimizer_step, msg::committed>, server_number(0), second, server_number(1));
  *second = system_->spawn(stubborn<msg::gradient_norm, msg::squared_norm>, server_number(1), first, server_number(0));
  caf::anon_send(*first, msg::stop{});
  caf::anon_send(*second, msg::stop{});
  const auto both_ask = [&] {
    const trace::recording now = read();
    return now.actors.size() == 2 && now.actors[0].open.size() == 1 && now.actors[1].open.size() == 1 &&
           now.actors[0].message_begin < 0 && now.actors[1].message_begin < 0;
  };
  while (!both_ask()) std::this_thread::yield();
  const trace::recording now = read();
  const analysis::blocked_report found = analysis::find_blocked(now);
  EXPECT_EQ(found.what, analysis::blockage::cycle) << found.verdict;
  EXPECT_EQ(found.cycle.size(), 2U);
  for (const char* word : {"server 0", "server 1", "optimizer_step", "gradient_norm"})
    EXPECT_NE(found.verdict.find(word), std::string::npos) << found.verdict;
  for (const auto& one : {*first, *second}) caf::anon_send_exit(one, caf::exit_reason::kill);
  *first = *second = nullptr;
}

/// Answers, refuses, or parks requests.
struct clerk_state {
  std::string name = "server 0";
  std::uint64_t step = 0;
  actor_trace trace;
  std::optional<std::pair<msg::header, caf::typed_response_promise<msg::committed>>> parked;

  caf::result<msg::committed> handle(const msg::optimizer_step& order) {
    if (order.rank == 1) return protocol::make_failure(protocol::errc::bad_input, "no");
    if (order.rank == 2) {
      parked.emplace(order.head, self->make_response_promise<msg::committed>());
      return parked->second;
    }
    return msg::committed{trace.next(order.head.step, msg::id_of(order.head))};
  }
  void handle(const msg::stop&) {
    if (parked) parked->second.deliver(msg::committed{trace.next(7, msg::id_of(parked->first))});
  }

  using actor = caf::typed_actor<caf::result<msg::committed>(msg::optimizer_step), caf::result<void>(msg::stop)>;
  explicit clerk_state(actor::stateful_pointer<clerk_state> me) : self(me) {}
  actor::stateful_pointer<clerk_state> self;
};

clerk_state::actor::behavior_type clerk(clerk_state::actor::stateful_pointer<clerk_state> self) {
  self->state.trace.start(self, self->system(), 1, server_number(0), self->state.name);
  return {recorded<msg::optimizer_step>(self), recorded<msg::stop>(self)};
}

TEST_F(TracedActors, AnswersRefusalsAndWhatIsParkedCanBeToldApart) {
  {
    const caf::scoped_actor asker(*system_);
    msg::header_source headers(1, trainer_number(0, 1));
    const auto made = system_->spawn(clerk);
    const auto ask = [&](std::uint32_t rank) {
      return asker->request(made, caf::infinite, msg::optimizer_step{headers.next(7, 0), rank, true, 1});
    };
    ask(0).receive([](const msg::committed&) {}, [](const caf::error&) { FAIL(); });
    ask(1).receive([](const msg::committed&) { FAIL(); }, [](const caf::error&) {});
    auto parked = ask(2);
    asker->send(made, msg::stop{headers.next(0, 0)});
    parked.receive([](const msg::committed&) {}, [](const caf::error&) { FAIL(); });
    asker->send_exit(made, caf::exit_reason::user_shutdown);
    asker->wait_for(made);
  }
  system_.reset();  // now its actors have ended
  const trace::recording found = read();
  std::vector<trace::event> steps;
  std::size_t released = 0;
  std::size_t exits = 0;
  for (const trace::event& one : found.events) {
    if (one.what == trace::kind::handled && found.type_name(one.type) == "optimizer_step") steps.push_back(one);
    if (one.what == trace::kind::exit) ++exits;
    if (one.what != trace::kind::released) continue;
    ++released;
    EXPECT_EQ(trace::sender_of(one.id), server_number(0));
    EXPECT_EQ(trace::sequence_of(one.cause), 4U) << "the stop, which was the fourth message";
  }
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_FALSE(steps[0].has(trace::flag::refused) || steps[0].has(trace::flag::parked));
  EXPECT_TRUE(steps[1].has(trace::flag::refused));
  EXPECT_TRUE(steps[2].has(trace::flag::parked));
  for (const trace::event& one : steps) {
    EXPECT_TRUE(one.has(trace::flag::request));
    EXPECT_EQ(one.step, 7U);
    EXPECT_EQ(one.actor, server_number(0));
    EXPECT_LE(one.begin, one.end);
  }
  EXPECT_EQ(released, 1U);
  EXPECT_EQ(exits, 1U);
}

/// The content is the same for any header, and differs when a number differs.
TEST(MessageContent, NamesItsPartsAndLeavesTheHeaderOut) {
  const auto made = [](std::uint64_t sequence, float last) {
    msg::gradient sent;
    sent.head = {1, 5, 3, 0, sequence, 0, sequence, 0};
    sent.rank = 1;
    msg::bag_gradient one{4,
                          msg::blob::own(std::vector<std::int64_t>{5, 0}),
                          msg::blob::own(std::vector<std::int64_t>{0, 2}),
                          {},
                          msg::tensor::own(1, 2, std::vector<float>{1, last})};
    sent.tables = {one, one};
    return sent;
  };
  const trace::content a = protocol::content_of(made(1, 2), false);
  const trace::content b = protocol::content_of(made(9, 2), false);
  const trace::content c = protocol::content_of(made(1, 3), true);
  ASSERT_EQ(a.parts.size(), 8U);
  EXPECT_EQ(a.parts[0].name, "tables[0].indices");
  EXPECT_EQ(a.parts[3].name, "tables[0].grad");
  EXPECT_EQ(a.parts[7].name, "tables[1].grad");
  EXPECT_EQ(a.parts[3].rows, 1U);
  EXPECT_EQ(a.parts[3].cols, 2U);
  EXPECT_EQ(a.fields_digest, b.fields_digest);
  for (std::size_t i = 0; i < a.parts.size(); ++i) EXPECT_EQ(a.parts[i].digest, b.parts[i].digest) << i;
  EXPECT_NE(a.parts[3].digest, c.parts[3].digest);
  EXPECT_EQ(a.parts[0].digest, c.parts[0].digest);
  EXPECT_TRUE(a.parts[3].bytes.empty());
  EXPECT_EQ(c.parts[3].bytes.size(), 2 * sizeof(float));
  EXPECT_EQ(protocol::weight_of(made(1, 2)), sizeof(msg::gradient) + 2 * (16 + 16 + 8));
}

// -- speed -----------------------------------------------------------------------------

TEST_F(TracedActors, WorkBeginsWithItsMessageAndItsAnswerIsSentWhenItEnds) {
  actor_trace trace;
  msg::header answer;
  {
    const caf::scoped_actor self(*system_);
    trace.start(caf::actor_cast<caf::abstract_actor*>(caf::actor_cast<caf::strong_actor_ptr>(self)), *system_, 1,
                server_number(0), "server 0");
    msg::stop order;
    order.head = {1, 5, trainer_number(0, 1), 0, 1, 0, trace::ticks_now(), 0};
    {
      const actor_trace::handling scope(trace, order, 0);
      { const actor_trace::range working(trace, trace::range_name::pool, 5, trace.latest()); }
      answer = trace.next(5, msg::id_of(order.head), trace.latest());
      EXPECT_LE(trace.latest(), trace::ticks_now());
    }
    const std::uint64_t after = trace::ticks_now();
    EXPECT_GE(trace.latest(), after) << "of a message that is no longer at hand";
  }
  const trace::recording found = read();
  const auto handled = std::ranges::find(found.events, trace::kind::handled, &trace::event::what);
  const auto work = std::ranges::find(found.events, trace::kind::range, &trace::event::what);
  ASSERT_TRUE(handled != found.events.end() && work != found.events.end());
  EXPECT_EQ(work->begin, handled->begin);
  EXPECT_LE(work->end, handled->end);
  const auto file = trace::read_trace_file(recorder_->ring_file());
  ASSERT_TRUE(file) << file.error().message;
  for (const auto& [number, chunk] : file->chunks)
    for (const trace::record& one : chunk.records)
      if (one.what() == trace::kind::range) {
        EXPECT_EQ(one.begin + one.busy(), answer.sent);
      }
}

}  // namespace
}  // namespace troupe::actors::traced_actors_test
