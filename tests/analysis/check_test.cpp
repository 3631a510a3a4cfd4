#include "trace/analysis/check.hpp"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>

#include "tests/analysis/synchronous_run.hpp"

namespace troupe::analysis::check_test {

namespace {

const invariant& find(const check_report& report, std::string_view name) {
  return *std::ranges::find(report.invariants, name, &invariant::name);
}

/// Four correct steps, with a clean end while the next step's lookups were outstanding.
class four_steps : public synchronous_run {
 public:
  four_steps() : synchronous_run({trace::ms(5), trace::ms(5), trace::ms(5), trace::ms(5)}) {
    for (trace::process_info& one : run().processes) one.end = trace::ending::clean;
    for (trace::actor_state& one : run().actors) one.alive = false;
    for (const std::uint64_t id : {lookup_of_0, lookup_of_1})
      made.actor(trace::sender_of(id)).open.push_back({id, made.type("lookup"), made.server(1), 5, trace::ms(1)});
    made.done();
  }

  trace::recording& run() { return made.edit(); }
  void set_consistency(std::string_view what) {
    run().processes[0].metadata["job"] = boost::json::object{{"consistency", what}};
  }
  /// Returns the `n`th event for which `is_it` is true.
  template <class F>
  trace::event& event_of(F&& is_it, std::size_t n = 0) {
    for (trace::event& one : run().events)
      if (is_it(one) && n-- == 0) return one;
    throw std::out_of_range("no such event");
  }
  auto handled_as(std::string_view type, std::uint16_t from, std::uint16_t to, std::uint64_t step) {
    return [=, number = made.type(type)](const trace::event& one) {
      return one.what == trace::kind::handled && one.type == number && trace::sender_of(one.id) == from &&
             one.actor == to && one.step == step;
    };
  }
  auto applied(std::uint16_t server, std::uint64_t step) {
    return [=](const trace::event& one) {
      return one.what == trace::kind::range && one.type == static_cast<std::uint16_t>(trace::range_name::apply) &&
             one.actor == server && one.step == step;
    };
  }
  check_report judged() { return check(made.done()); }
  /// Returns the only broken invariant and its first violation.
  std::string broken() {
    const check_report report = judged();
    std::string all;
    for (const invariant& one : report.invariants)
      if (one.violations > 0) all += (all.empty() ? "" : "; ") + one.name + ": " + one.first.at(0);
    return all;
  }
};

}  // namespace

TEST(Check, ACorrectRunHolds) {
  four_steps r;
  const auto report = r.judged();
  EXPECT_TRUE(report.holds()) << to_text(report);
  EXPECT_EQ(report.invariants.size(), 8U);
  EXPECT_EQ(find(report, "gradient_once").cases, 16U + 16U);  // handled ones, and those that 8 applies require
  EXPECT_EQ(find(report, "apply_once").cases, 8U);
  EXPECT_EQ(find(report, "committed_rows").cases, 12U);  // steps 2 to 4, two servers, two trainers
  EXPECT_EQ(find(report, "staleness_bound").cases, 16U);
  EXPECT_GT(find(report, "requests_answered").cases, 10U);
  EXPECT_EQ(find(report, "credit_not_negative").cases, 0U);
  EXPECT_TRUE(report.notes.empty());
  EXPECT_EQ(to_text(report).substr(0, 20), "all invariants hold\n");
}

TEST(Check, MessagesOutOfOrderAreFound) {
  four_steps r;
  auto& early = r.event_of(r.handled_as("gradient", r.made.trainer(0), r.made.server(0), 2));
  auto& late = r.event_of(r.handled_as("gradient", r.made.trainer(0), r.made.server(0), 3));
  std::swap(early.id, late.id);
  EXPECT_EQ(find(r.judged(), "sender_order").violations, 1U);
  EXPECT_EQ(r.broken().substr(0, 40), "sender_order: server 0 handled trainer 0");
}

TEST(Check, AnswersAndOtherMessagesHaveAnOrderEach) {
  four_steps r;
  // The group has sent trainer 0 an answer with a higher number than that of the one-way message after it.
  r.made.handled("note", 1, r.made.trainer(0), trace::ms(0, 0, 900, 901), {.sequence = 1});
  EXPECT_EQ(r.broken(), "");
}

TEST(Check, ClientsShareANumber) {
  four_steps r;
  for (const int i : {1, 2}) r.made.handled("status", 0xffff, 0, trace::ms(0, 0, 900 + i, 900 + i), {.sequence = 1});
  EXPECT_EQ(r.broken(), "");
}

TEST(Check, AGradientHandledTwiceIsFound) {
  four_steps r;
  trace::event again = r.event_of(r.handled_as("gradient", r.made.trainer(1), r.made.server(1), 4));
  again.begin += trace::us(1);
  r.run().events.push_back(again);
  const auto report = r.judged();
  EXPECT_EQ(find(report, "gradient_once").violations, 1U);
  EXPECT_TRUE(
      find(report, "gradient_once").first[0].starts_with("server 1 handled 2 gradients of trainer 1 for step 4"));
  EXPECT_EQ(find(report, "sender_order").violations, 1U);
}

TEST(Check, AGradientThatIsMissingIsFound) {
  four_steps r;
  std::erase_if(r.run().events, r.handled_as("gradient", r.made.trainer(1), r.made.server(1), 2));
  const auto report = r.judged();
  EXPECT_EQ(find(report, "gradient_once").violations, 2U);
  EXPECT_EQ(find(report, "gradient_once").first,
            (std::vector<std::string>{"server 1 handled no gradient of trainer 1 for step 2, but one for step 3",
                                      "server 1 applied step 2 without the gradient of trainer 1"}));
}

TEST(Check, WhatIsInHandHasNoRecordYet) {
  four_steps r;
  const auto last = r.handled_as("gradient", r.made.trainer(0), r.made.server(1), 4);
  r.made.actor(r.made.server(1)).message_begin = r.event_of(last).begin;
  std::erase_if(r.run().events, last);
  EXPECT_EQ(r.broken(), "");
}

TEST(Check, AStepAppliedTwiceOrLeftOutIsFound) {
  four_steps r;
  r.event_of(r.applied(r.made.server(0), 3)).step = 2;
  const auto report = r.judged();
  EXPECT_EQ(
      find(report, "apply_once").first,
      (std::vector<std::string>{"server 0 applied step 2 twice", "server 0 applied step 4 without the one before it"}));
}

TEST(Check, RowsOfAnUncommittedStepAreFound) {
  four_steps r;
  trace::event& rows = r.event_of(r.handled_as("rows", r.made.server(1), r.made.trainer(0), 3));
  rows.sent = r.event_of(r.applied(r.made.server(1), 2)).end - trace::us(1);
  EXPECT_EQ(r.broken().substr(0, 30), "committed_rows: server 1 sent ");
  EXPECT_NE(r.broken().find("rows for step 3 before it had applied optimizer step 2"), std::string::npos);
  // Rows that report that they lack that step are correct if the job allows it.
  rows.aux = 1;
  r.set_consistency("ssp:1");
  EXPECT_EQ(r.broken(), "");
}

/// Processes are read one after the other: a trainer may have rows that a server sent after its own records were read.
TEST(Check, RowsThatAServerSentAfterItWasReadAreNotJudged) {
  four_steps r;
  const trace::event& rows = r.event_of(r.handled_as("rows", r.made.server(1), r.made.trainer(0), 4));
  const trace::event& applied = r.event_of(r.applied(r.made.server(1), 3));
  ASSERT_GE(rows.sent, applied.end);
  const std::size_t process = applied.process;
  std::erase_if(r.run().events, r.applied(r.made.server(1), 3));
  std::erase_if(r.run().events, r.applied(r.made.server(1), 4));
  EXPECT_NE(r.broken().find("has not applied optimizer step 3"), std::string::npos) << r.broken();
  r.run().processes[process].alive = true;
  EXPECT_EQ(find(r.judged(), "committed_rows").first, std::vector<std::string>());
}

TEST(Check, ALiveServerMayBeHandlingItsLastStep) {
  four_steps r;
  const trace::event applied = r.event_of(r.applied(r.made.server(1), 4));
  std::erase_if(r.run().events, r.handled_as("gradient", r.made.trainer(1), r.made.server(1), 4));
  EXPECT_NE(r.broken().find("server 1 applied step 4 without the gradient of trainer 1"), std::string::npos)
      << r.broken();
  r.run().processes[applied.process].alive = true;
  EXPECT_EQ(r.broken(), "");
}

TEST(Check, RowsThatLackTooMuchAreFound) {
  four_steps r;
  r.set_consistency("ssp:2");
  r.event_of(r.handled_as("rows", r.made.server(0), r.made.trainer(0), 4)).aux = 2;
  EXPECT_EQ(r.broken(), "");
  r.event_of(r.handled_as("rows", r.made.server(0), r.made.trainer(0), 4)).aux = 3;
  EXPECT_EQ(r.broken().substr(0, 15), "staleness_bound");
  r.set_consistency("async");
  const auto report = r.judged();
  EXPECT_TRUE(report.holds());
  EXPECT_EQ(find(report, "staleness_bound").cases, 0U);
  EXPECT_NE(find(report, "staleness_bound").note, "");
}

/// The master's process records the job. Without it, a recording shows neither how stale rows may be nor which trainers
/// have rows.
TEST(Check, WithoutTheMasterNoBoundIsJudged) {
  four_steps r;
  r.event_of(r.handled_as("rows", r.made.server(0), r.made.trainer(0), 4)).aux = 1;
  std::erase_if(r.run().events, r.handled_as("gradient", r.made.trainer(1), r.made.server(1), 4));
  EXPECT_EQ(r.broken().substr(0, 13), "gradient_once");
  std::erase_if(r.run().actors, [](const trace::actor_state& one) { return one.name == "master"; });
  EXPECT_EQ(r.run().processes[0].node, 0U);
  EXPECT_EQ(r.broken(), "");
  EXPECT_EQ(find(r.judged(), "staleness_bound").cases, 0U);
}

TEST(Check, StepsOfSeveralBatchesCountAsOne) {
  four_steps r;  // optimizer steps 1 and 2, of two steps each
  r.run().processes[0].metadata["job"] = boost::json::object{{"accumulate", "2"}};
  for (const std::uint16_t server : {r.made.server(0), r.made.server(1)}) {
    std::erase_if(r.run().events, r.applied(server, 1));
    std::erase_if(r.run().events, r.applied(server, 3));
  }
  EXPECT_EQ(r.broken(), "");
  // Rows for step 4 require no more than those for step 3: the optimizer step that ended with step 2.
  trace::event& rows = r.event_of(r.handled_as("rows", r.made.server(1), r.made.trainer(0), 4));
  rows.sent = r.event_of(r.applied(r.made.server(1), 2)).end + trace::us(1);
  EXPECT_EQ(r.broken(), "");
  rows.sent = r.event_of(r.applied(r.made.server(1), 2)).end - trace::us(1);
  EXPECT_EQ(r.broken().substr(0, 14), "committed_rows");
}

TEST(Check, NegativeCreditIsFound) {
  four_steps r;
  trace::event credit;
  credit.what = trace::kind::credit;
  credit.begin = credit.end = trace::ms(50);
  credit.raw = 100;
  credit.bytes = 4096;
  credit.aux = 2;
  r.made.add(credit);
  EXPECT_EQ(r.broken(), "");
  credit.raw = static_cast<std::uint64_t>(-96);
  r.made.add(credit);
  EXPECT_EQ(r.broken(), "credit_not_negative: node 0: -96 bytes under way to node 2 after 4096 bytes came back");
}

TEST(Check, ARequestWithoutAnswerIsFound) {
  four_steps r;
  const auto rows = r.handled_as("rows", r.made.server(1), r.made.trainer(1), 3);
  std::erase_if(r.run().events, rows);
  EXPECT_EQ(r.broken().substr(0, 27), "requests_answered: trainer ");
  EXPECT_NE(r.broken().find("(lookup, step 3) was parked by server 1 and never answered"), std::string::npos);
  r.run().processes[0].end = trace::ending::failed;
  const auto report = r.judged();
  EXPECT_TRUE(report.holds());
  EXPECT_EQ(find(report, "requests_answered").note, "not checked: the run has not ended cleanly");
}

TEST(Check, AMessageBegunBeforeItCameIsFound) {
  four_steps r;
  trace::event& one = r.event_of(r.handled_as("gradient", r.made.trainer(0), r.made.server(0), 2));
  one.arrived = one.begin + 1;
  EXPECT_EQ(r.broken().substr(0, 19), "begin_after_arrival");
  one.arrived = one.begin;
  one.sent = one.arrived + 1;
  EXPECT_EQ(r.broken().substr(0, 19), "begin_after_arrival");
}

TEST(Check, ClocksMayBeWrongByTheirStatedError) {
  four_steps r;
  r.run().processes.resize(2);
  r.run().processes[1] = r.run().processes[0];
  r.run().processes[1].boot = "another";
  r.run().processes[1].clock_error = trace::us(50);
  r.made.actor(r.made.trainer(0)).process = 1;
  trace::event& one = r.event_of(r.handled_as("gradient", r.made.trainer(0), r.made.server(0), 2));
  one.sent = one.arrived + trace::us(50);
  EXPECT_EQ(r.broken(), "");
  one.sent = one.arrived + trace::us(50) + 1;
  EXPECT_EQ(r.broken().substr(0, 19), "begin_after_arrival");
}

TEST(Check, WhatARingHasLostIsNeitherKeptNorBroken) {
  four_steps r;
  // Removes everything before step 3's gradients.
  const trace::nanoseconds cut = r.event_of(r.handled_as("gradient", r.made.trainer(1), r.made.server(1), 3)).begin + 1;
  std::erase_if(r.run().events, [&](const trace::event& one) { return one.begin < cut; });
  r.run().processes[0].overwritten = 100;
  r.run().processes[0].complete_from = cut;
  const auto report = r.judged();
  EXPECT_TRUE(report.holds()) << to_text(report);
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_EQ(report.notes[0], "about 100 records are missing: what they would show is not checked");
}

TEST(Check, AFilterProvesNothingMissing) {
  four_steps r;
  std::erase_if(r.run().events, r.handled_as("gradient", r.made.trainer(1), r.made.server(1), 2));
  r.run().processes[0].dropped = 1;
  r.run().processes[0].filtered = true;
  EXPECT_EQ(r.broken(), "");
  EXPECT_EQ(find(r.judged(), "gradient_once").note, "a filter left records out: not checked whether any is missing");
}

TEST(Check, JsonHasStableNames) {
  four_steps r;
  r.event_of(r.applied(r.made.server(0), 3)).step = 2;
  const auto json = to_json(r.judged());
  EXPECT_EQ(json.at("holds"), false);
  const auto& one = json.at("invariants").at(2).as_object();
  EXPECT_EQ(one.at("name"), "apply_once");
  EXPECT_EQ(one.at("cases"), 8U);
  EXPECT_EQ(one.at("violations"), 2U);
  EXPECT_EQ(one.at("first").at(0), "server 0 applied step 2 twice");
  EXPECT_NE(to_text(r.judged()).find("2 of 8 invariants are broken\n"), std::string::npos);
}

}  // namespace troupe::analysis::check_test
