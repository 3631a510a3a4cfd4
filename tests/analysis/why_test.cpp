#include "trace/analysis/why.hpp"

#include <gtest/gtest.h>

#include <set>

#include "tests/analysis/synchronous_run.hpp"

namespace troupe::analysis::why_test {
namespace {

std::vector<std::uint64_t> ids(const cause_chain& chain) {
  std::vector<std::uint64_t> all;
  for (const hop& one : chain.hops) all.push_back(one.id);
  return all;
}

TEST(Why, FollowsCausesBackToTheStepsBegin) {
  synchronous_run one({trace::ms(8), trace::ms(8)});
  const auto before = one.gradient_of_0;  // of step 2
  synchronous_run longer({trace::ms(8), trace::ms(8), trace::ms(8)});
  const trace::recording& run = longer.made.done();
  const causality index(run);
  const cause_chain chain = find_causes(index, longer.reduced_of_1);
  // Released by trainer 0's share, which followed from its rows, which answered its lookup: that of step 3 was sent in
  // step 2.
  const auto& last = *chain.hops.back().message;
  EXPECT_EQ(chain.begins, cause_chain::start::step);
  EXPECT_EQ(last.step, 2U);
  ASSERT_EQ(chain.hops.size(), 5U);
  EXPECT_EQ(chain.hops[0].id, longer.reduced_of_1);
  EXPECT_TRUE(chain.hops[0].released);
  EXPECT_EQ(chain.hops[1].id, longer.reduce_of_0);
  EXPECT_FALSE(chain.hops[1].released);
  EXPECT_EQ(chain.hops[2].id, longer.rows_of_1);
  EXPECT_EQ(run.type_name(chain.hops[3].message->type), "lookup");
  EXPECT_EQ(run.type_name(last.type), "rows");
  EXPECT_EQ(chain.hops[1].wire, trace::us(100));
  EXPECT_EQ(chain.hops[2].waited, trace::us(100));
  EXPECT_EQ(chain.hops[2].worked, trace::ms(23));
  EXPECT_EQ(chain.hops[1].into, trace::ms(23));

  const cause_chain released = find_causes(index, longer.rows_of_1_for_1);
  ASSERT_EQ(released.hops.size(), 2U);
  EXPECT_EQ(released.hops[1].id, before);  // trainer 0's gradient of step 2, not the parked lookup
}

TEST(Why, SaysWhereRecordsEnd) {
  synchronous_run one({trace::ms(8)});
  const auto unknown = trace::made_id(one.made.trainer(0), 9999);
  const auto id =
      one.made.handled("rows", one.made.server(0), one.made.trainer(0), trace::ms(1, 1, 1, 1), {.cause = unknown});
  const causality index(one.made.done());
  const cause_chain chain = find_causes(index, id);
  EXPECT_EQ(ids(chain), std::vector<std::uint64_t>{id});
  EXPECT_EQ(chain.begins, cause_chain::start::unknown);
  EXPECT_EQ(chain.missing, unknown);
  EXPECT_NE(causes_text(index, chain, 10).find("because of trainer 0 #9999, of which there is no record"),
            std::string::npos);
  const cause_chain first = find_causes(index, one.rows_of_1);
  EXPECT_EQ(first.begins, cause_chain::start::actor);
  EXPECT_NE(causes_text(index, first, 10).find("server 1 sent that of its own accord"), std::string::npos);
}

TEST(Why, KnowsAMessageThatNeverArrived) {
  synchronous_run one({trace::ms(8)});
  const auto lost = one.made.frame(trace::kind::sent, "gradient", one.made.trainer(0), one.made.server(1),
                                   trace::ms(125), {.step = 1, .cause = one.rows_of_1});
  const causality index(one.made.done());
  const cause_chain chain = find_causes(index, lost);
  EXPECT_EQ(ids(chain), (std::vector<std::uint64_t>{lost, one.rows_of_1}));
  EXPECT_NE(causes_text(index, chain, 10).find("sent, never arrived by server 1"), std::string::npos);
  EXPECT_EQ(causes_json(index, chain).at("hops").as_array()[0].as_object().at("state").as_string(),
            "sent, never arrived");
  const influence influencing = find_influence(index, lost);
  ASSERT_EQ(influencing.actors.size(), 1U);
  EXPECT_EQ(influencing.actors[0].messages.front()->id, one.rows_of_1);
}

TEST(Why, EndsInACircle) {
  trace::made_recording made;
  const auto first = trace::made_id(made.trainer(0), 1);
  const auto second = made.handled("a", made.server(0), made.trainer(0), {}, {.cause = first});
  made.handled("b", made.trainer(0), made.server(0), {}, {.cause = second});
  const trace::recording& run = made.done();
  EXPECT_EQ(find_causes(causality(run), first).hops.size(), 2U);
}

/// The influence by definition: everything that leads to the message over edges of program order and of messages.
std::set<std::uint64_t> influence_by_definition(const causality& index, std::uint64_t id) {
  std::set<std::uint64_t> found;
  std::set<const trace::event*> seen;
  std::vector<const trace::event*> todo = {index.handled(id)};
  while (!todo.empty()) {
    const trace::event* one = todo.back();
    todo.pop_back();
    if (one == nullptr || !seen.insert(one).second) continue;
    if (one->what == trace::kind::handled && one->id != id) found.insert(one->id);
    todo.push_back(index.before(*one));
    if (one->what != trace::kind::handled) continue;
    const trace::event* sender = index.sent_in(*one);
    todo.push_back(sender != nullptr ? sender : index.activity_at(trace::sender_of(one->id), one->sent));
  }
  return found;
}

TEST(Influence, HoldsAllThatCouldHaveInfluencedAMessage) {
  synchronous_run one({trace::ms(8), trace::ms(8), trace::ms(8)});
  const auto ask = one.made.handled("save_dense", one.made.trainer(0), one.made.server(1),
                                    trace::ms(185, 200, 200, 201), {.cause = one.rows_of_1});
  const causality index(one.made.done());
  const influence influencing = find_influence(index, ask);  // outside of steps: as far back as the records go
  std::set<std::uint64_t> found;
  for (const auto& part : influencing.actors) {
    for (const trace::event* message : part.messages) found.insert(message->id);
  }
  EXPECT_EQ(found, influence_by_definition(index, ask));
  EXPECT_EQ(influencing.messages, found.size());
  EXPECT_GT(found.size(), 30U);
}

TEST(Influence, ReachesBackToEachActorsFirstMessageOfTheStep) {
  synchronous_run one({trace::ms(8), trace::ms(8), trace::ms(8)});
  const trace::recording& run = one.made.done();
  const causality index(run);
  const influence influencing = find_influence(index, one.rows_of_1);
  EXPECT_EQ(influencing.step, 3U);
  // Server 1: both lookups, and the gradient between them. Trainer 0: server 0's rows. Trainer 1 and server 0 sent
  // their messages before they received anything of step 3.
  ASSERT_EQ(influencing.actors.size(), 2U);
  EXPECT_EQ(influencing.actors[0].actor, one.made.server(1));
  std::vector<std::string> types;
  for (const trace::event* message : influencing.actors[0].messages) types.push_back(run.type_name(message->type));
  EXPECT_EQ(types, (std::vector<std::string>{"lookup", "gradient", "lookup"}));
  EXPECT_EQ(influencing.actors[1].actor, one.made.trainer(0));
  ASSERT_EQ(influencing.actors[1].messages.size(), 1U);
  EXPECT_EQ(trace::sender_of(influencing.actors[1].messages[0]->id), one.made.server(0));
}

TEST(Influence, IsShownWithinALimit) {
  synchronous_run one({trace::ms(8), trace::ms(8), trace::ms(8)});
  one.made.edit().processes[0].overwritten = 5;
  const trace::recording& run = one.made.done();
  const causality index(run);
  const influence influencing = find_influence(index, one.reduced_of_1);
  const std::string text = influence_text(index, influencing, 1);
  EXPECT_NE(text.find("could have influenced " + run.message_name(one.reduced_of_1) + ", since step 3 began"),
            text.npos)
      << text;
  EXPECT_NE(text.find("... and "), text.npos) << text;
  const boost::json::object json = influence_json(index, influencing, 1);
  EXPECT_EQ(json.at("handled").to_number<std::uint64_t>(), influencing.messages);
  for (const auto& actor : json.at("actors").as_array())
    EXPECT_EQ(actor.as_object().at("messages").as_array().size(), 1U);
}

}  // namespace
}  // namespace troupe::analysis::why_test
