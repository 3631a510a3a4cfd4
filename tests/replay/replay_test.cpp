#include "trace/replay/replay.hpp"

#include <gtest/gtest.h>

#include "actors/common/actor_name.hpp"
#include "cluster/nodes/caf_network.hpp"
#include "protocol/message_types.hpp"
#include "protocol/messages.hpp"
#include "trace/replay/replay_order.hpp"

namespace troupe::replay::replay_test {
namespace {

constexpr std::uint16_t server = 2;
constexpr std::uint16_t first_trainer = 3;
constexpr std::uint16_t second_trainer = 4;

class Replay : public testing::Test {
 protected:
  Replay() { protocol::initialize_types(); }

  static msg::header from(std::uint16_t sender, std::uint64_t step, std::uint64_t sequence) {
    msg::header made;
    made.sender = sender;
    made.step = step;
    made.sequence = sequence;
    return made;
  }

  template <class Message>
  void expect(std::uint16_t sender, std::uint64_t step, const trace::content* held = nullptr) {
    const msg::header head = from(sender, step, 0);
    order_.by_receiver[server].push_back(
        {actors::replay_key_of(server, head, caf::type_id_v<Message>, 0), ++ids_, held});
  }

  /// Returns whether the message may be handled now; otherwise holds it.
  template <class Message>
  bool comes(replayed_actor& actor, const msg::header& head) {
    if (actor.may_handle(head, caf::type_id_v<Message>)) return true;
    Message message;
    message.head = head;
    actor.hold(head, caf::type_id_v<Message>, caf::make_mailbox_element(nullptr, caf::make_message_id(), {}, message));
    return false;
  }

  static std::uint64_t sequence_of(const caf::mailbox_element_ptr& message) {
    return message->payload.get_as<msg::lookup>(0).head.sequence;
  }

  replay_order order_;
  trace::recording recorded_;
  std::uint64_t ids_ = 0;
};

TEST_F(Replay, PutsAsideWhatComesBeforeItsTurn) {
  order_.is_whole = true;
  expect<msg::lookup>(first_trainer, 1);
  expect<msg::lookup>(second_trainer, 1);
  expect<msg::gradient>(second_trainer, 1);
  replay all(order_, recorded_);
  replayed_actor& actor = *all.find(server);
  EXPECT_FALSE(comes<msg::lookup>(actor, from(second_trainer, 1, 1)));
  EXPECT_EQ(actor.take_next(), nullptr);
  EXPECT_FALSE(comes<msg::gradient>(actor, from(second_trainer, 1, 2)));
  EXPECT_TRUE(comes<msg::lookup>(actor, from(first_trainer, 1, 1)));
  const auto next = actor.take_next();
  ASSERT_NE(next, nullptr);
  EXPECT_TRUE(comes<msg::lookup>(actor, from(second_trainer, 1, 1))) << "it is back, and has its turn";
  EXPECT_NE(actor.take_next(), nullptr);
  EXPECT_TRUE(comes<msg::gradient>(actor, from(second_trainer, 1, 2)));
  EXPECT_EQ(actor.take_next(), nullptr);
  EXPECT_EQ(all.difference(), "");
}

/// An evaluation sends several lookups in one step.
TEST_F(Replay, KeepsTheOrderOfWhatLooksTheSame) {
  expect<msg::lookup>(first_trainer, 1);
  expect<msg::lookup>(second_trainer, 1);
  expect<msg::lookup>(second_trainer, 1);
  replay all(order_, recorded_);
  replayed_actor& actor = *all.find(server);
  EXPECT_FALSE(comes<msg::lookup>(actor, from(second_trainer, 1, 1)));
  EXPECT_TRUE(comes<msg::lookup>(actor, from(first_trainer, 1, 1)));
  const auto next = actor.take_next();
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(sequence_of(next), 1U);
  EXPECT_FALSE(comes<msg::lookup>(actor, from(second_trainer, 1, 2))) << "the other one is on its way";
  EXPECT_TRUE(comes<msg::lookup>(actor, from(second_trainer, 1, 1)));
  const auto last = actor.take_next();
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(sequence_of(last), 2U);
}

TEST_F(Replay, NoticesWhatWasNotRecorded) {
  order_.is_whole = true;
  expect<msg::lookup>(first_trainer, 1);
  expect<msg::gradient>(first_trainer, 1);
  replay all(order_, recorded_);
  replayed_actor& actor = *all.find(server);
  EXPECT_TRUE(comes<msg::lookup>(actor, from(first_trainer, 1, 1)));
  EXPECT_FALSE(comes<msg::lookup>(actor, from(first_trainer, 2, 2)));
  EXPECT_NE(all.difference().find("step 2: lookup"), std::string::npos) << all.difference();
  EXPECT_NE(all.difference().find("where step 1: gradient"), std::string::npos) << all.difference();
}

TEST_F(Replay, TakesNothingBeyondTheEndOfTheRecording) {
  expect<msg::lookup>(first_trainer, 1);
  replay all(order_, recorded_);
  replayed_actor& actor = *all.find(server);
  EXPECT_TRUE(comes<msg::lookup>(actor, from(first_trainer, 1, 1)));
  actor.compare(from(first_trainer, 1, 1), caf::type_id_v<msg::lookup>, 0, {});
  EXPECT_TRUE(all.is_complete());
  EXPECT_FALSE(comes<msg::gradient>(actor, from(first_trainer, 1, 2)));
  EXPECT_EQ(all.difference(), "") << "the recorded run ended early";
}

TEST_F(Replay, NamesTheTensorThatDiffers) {
  trace::content held;
  held.parts.push_back({"tables[0].grad", "float32", 2, 3, 17, {}});
  order_.is_whole = true;
  expect<msg::gradient>(first_trainer, 1, &held);
  replay all(order_, recorded_);
  trace::content now = held;
  now.parts[0].digest = 18;
  all.find(server)->compare(from(first_trainer, 1, 1), caf::type_id_v<msg::gradient>, 0, now);
  EXPECT_NE(all.difference().find("tables[0].grad differs"), std::string::npos) << all.difference();
  EXPECT_EQ(all.compared(), 0U);
}

TEST_F(Replay, TellsForWhatItWaits) {
  order_.is_whole = true;
  expect<msg::gradient>(first_trainer, 4);
  replay all(order_, recorded_);
  all.give_up();
  EXPECT_NE(all.difference().find("step 4: gradient"), std::string::npos) << all.difference();
  EXPECT_NE(all.difference().find("does not come"), std::string::npos) << all.difference();
}

/// Returns the error for a recording whose run began at `from_step`.
std::string problem_of(boost::json::value from_step) {
  trace::recording recorded;
  recorded.processes.resize(1);
  recorded.processes[0].metadata = {{"job", {{"servers", "1"}, {"trainers", "1"}}},
                                    {"from_step", std::move(from_step)}};
  for (const char* name : {"server 0", "trainer 0"}) recorded.actors.emplace_back().name = name;
  const auto order = read_replay_order(recorded);
  return order ? "" : order.error().message;
}

TEST(ReplayOrder, SaysFromWhichStepARunWentOn) {
  const std::string rest = ": only runs from the beginning can be replayed";
  EXPECT_EQ(problem_of(12), "the run went on from the checkpoint of step 12" + rest);
  EXPECT_EQ(problem_of(0), "nothing of training is recorded: the run ended before it");
}

TEST(ReplayOrder, SaysWhichSettingIsNotRecorded) {
  trace::recording recorded;
  recorded.processes.resize(1);
  recorded.processes[0].metadata = {{"job", {{"servers", "1"}}}, {"left_out", {"names", "job.columns"}}};
  const auto order = read_replay_order(recorded);
  ASSERT_FALSE(order);
  EXPECT_EQ(order.error().message, "the recording had no room for the setting job.columns: a replay needs all");
  recorded.processes[0].files = {"h-1.ring"};
  recorded.processes[0].metadata_fault = "are damaged";
  EXPECT_EQ(read_replay_order(recorded).error().message,
            "h-1.ring: its metadata are damaged: it is unknown what run it was");
}

TEST(ReplayOrder, SaysThatARunHasSentNothingToCompare) {
  trace::recording recorded;
  recorded.processes.resize(1);
  recorded.processes[0].metadata = {{"job", {{"servers", "1"}, {"trainers", "1"}}},
                                    {"result", {{"stopped", false}, {"weights_digest", "0"}}}};
  for (const char* name : {"server 0", "trainer 0"}) recorded.actors.emplace_back().name = name;
  const auto order = read_replay_order(recorded);
  ASSERT_FALSE(order);
  EXPECT_NE(order.error().message.find("nothing that a replay compares"), std::string::npos) << order.error().message;
}

TEST(ReplayOrder, ShowsWhatIsNoStepAsItStands) {
  const std::string rest = ": only runs from the beginning can be replayed";
  EXPECT_EQ(problem_of("x"), "the run went on from the checkpoint of step \"x\"" + rest);
  EXPECT_EQ(problem_of(-3), "the run went on from the checkpoint of step -3" + rest);
  EXPECT_EQ(problem_of(boost::json::object()), "the run went on from the checkpoint of step {}" + rest);
  EXPECT_LT(problem_of(boost::json::string(100'000, 'x')).size(), 300U);
}

}  // namespace
}  // namespace troupe::replay::replay_test
