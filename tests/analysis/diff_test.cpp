// Two runs that differ in one known detail.

#include "trace/analysis/diff.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "tests/trace/made_recording.hpp"

namespace troupe::analysis::diff_test {
namespace {

/// A run of one server and two trainers. In each step both trainers handle `rows`, and then send a `gradient` and the
/// next step's `lookup`, which the server answers once it has handled both gradients.
class run_of {
 public:
  using change = std::function<void(trace::made_message&, trace::content&)>;

  /// `changes` may change any message before it is recorded, or drop it by sending it to `nowhere`.
  explicit run_of(std::uint64_t steps, change changes = {}) : changes_(std::move(changes)) {
    std::array<std::uint64_t, 2> lookups{};
    for (std::uint16_t t : {0, 1}) lookups[t] = message(made.trainer(t), made.server(0), "lookup", 1, 0);
    std::uint64_t last_gradient = 0;
    for (std::uint64_t step = 1; step <= steps; ++step) {
      std::array<std::uint64_t, 2> rows{};
      for (std::uint16_t t : {0, 1}) {
        rows[t] = message(made.server(0), made.trainer(t), "rows", step, lookups[t]);
        if (step > 1) made.released(made.server(0), rows[t], last_gradient, now_);
      }
      for (std::uint16_t t : {0, 1}) {
        last_gradient = message(made.trainer(t), made.server(0), "gradient", step, rows[t]);
        lookups[t] = message(made.trainer(t), made.server(0), "lookup", step + 1, rows[t]);
      }
      for (std::uint16_t t : {0, 1}) made.step(made.trainer(t), step, now_ - trace::us(50), now_);
    }
    made.edit().processes[0].end = trace::ending::clean;
  }

  const trace::recording& done() { return made.done(); }

  std::uint64_t message(std::uint16_t from, std::uint16_t to, std::string_view type, std::uint64_t step,
                        std::uint64_t cause) {
    now_ += trace::us(10);
    trace::made_message m{.from = from,
                          .to = to,
                          .type = type,
                          .step = step,
                          .cause = cause,
                          .sent = now_ - trace::us(5),
                          .arrived = now_ - trace::us(4),
                          .begin = now_,
                          .end = now_ + trace::us(4),
                          .bytes = 100};
    trace::content held;
    held.parts = {{"tables[0].indices", "bytes", 96, 1, step, ""}, {"tables[0].grad", "float32", 12, 8, 77 + step, ""}};
    held.fields_digest = 5;
    if (changes_) changes_(m, held);
    if (m.to == nowhere) return trace::made_id(from, 1'000'000);
    held.id = made.handled(m);
    held.actor = m.to;
    made.edit().contents.push_back(held);
    return held.id;
  }

  static constexpr std::uint16_t nowhere = 999;
  trace::made_recording made{1, 2};

 private:
  change changes_;
  trace::nanoseconds now_ = 0;
};

bool is(const trace::made_message& m, std::string_view type, std::uint64_t step, std::uint16_t from) {
  return m.type == type && m.step == step && m.from == from;
}

constexpr std::uint16_t server0 = 2, trainer0 = 3, trainer1 = 4;

std::string first_line(run_of& a, run_of& b, const diff_options& how = {}) {
  const std::string text = diff_text(a.done(), b.done(), compare(a.done(), b.done(), how), 20);
  return text.substr(0, text.find('\n'));
}

bool has_note(const diff& found, std::string_view text) {
  return std::ranges::any_of(found.notes, [&](const std::string& note) { return note.find(text) != note.npos; });
}

TEST(Diff, EqualRunsHaveNone) {
  run_of a(10), b(10, [](trace::made_message&m, trace::content&) { m.end += trace::us(1); });
  const diff found = compare(a.done(), b.done(), {});
  EXPECT_TRUE(found.same());
  EXPECT_EQ(found.compared, 2U + 10 * 6);
  EXPECT_EQ(first_line(a, b), "no difference: 62 messages have the same order, size and contents");
  EXPECT_TRUE(found.notes.empty());
}

TEST(Diff, NamesTheTensorOfTheFirstOfManyDifferences) {
  run_of a(10);
  run_of b(10, [](trace::made_message& m, trace::content& held) {
    const bool flipped = is(m, "gradient", 4, trainer1) || m.step > 5 || (m.step == 5 && m.type == "rows");
    if (flipped) held.parts[1].digest ^= 1;
  });
  const diff found = compare(a.done(), b.done(), {});
  ASSERT_TRUE(found.first);
  EXPECT_EQ(found.first->what, difference::contents);
  // Before it: two lookups, three whole steps of six messages, both rows, trainer 0's gradient of step 4.
  // Trainer 0's lookup of step 5 is unrelated to it, and belongs to a later step.
  EXPECT_EQ(found.equal_before, 2U + 3 * 6 + 2 + 1);
  EXPECT_EQ(
      first_line(a, b),
      "first difference: step 4, gradient of trainer 1 to server 0 (trainer 1 #8): tables[0].grad differs (digest "
      "0000000000000051 in A, 0000000000000050 in B); all 23 messages before it are equal");
  ASSERT_EQ(found.types.size(), 3U);
  EXPECT_EQ(found.types[0].type, "gradient");
  EXPECT_EQ(found.types[0].found[static_cast<std::size_t>(difference::contents)], 1U + 2 * 5);
  EXPECT_EQ(found.types[0].first_step, 4U);
  EXPECT_EQ(found.types[1].type, "rows");
  EXPECT_EQ(found.types[1].first_step, 5U);
}

TEST(Diff, OrderIsOfCausesNotOfClocks) {
  // The server's clock is behind: rows that follow from the gradient have earlier times.
  const auto behind = [](trace::made_message& m, trace::content& held, bool changed) {
    if (m.from == server0) m.sent -= trace::ms(500);
    if (m.to == server0) {
      m.arrived -= trace::ms(500);
      m.begin -= trace::ms(500);
      m.end -= trace::ms(500);
    }
    if (changed && (is(m, "gradient", 2, trainer0) || (m.type == "rows" && m.step == 3))) held.parts[0].digest = 0;
  };
  run_of a(5, [&](trace::made_message& m, trace::content& held) { behind(m, held, false); });
  run_of b(5, [&](trace::made_message& m, trace::content& held) { behind(m, held, true); });
  const diff found = compare(a.done(), b.done(), {});
  ASSERT_TRUE(found.first);
  EXPECT_EQ(a.done().type_name(found.first->message.a->type), "gradient");
}

TEST(Diff, TheSenderOfTwoThatDifferIsAskedForTheFirst) {
  // Rows of one step differ only at trainer 1: its later messages follow from them, although trainer 0's number is
  // lower and its gradient is recorded first.
  run_of a(3);
  run_of b(3, [](trace::made_message& m, trace::content& held) {
    if ((is(m, "rows", 2, server0) && m.to == trainer1) || (m.type == "gradient" && m.step == 2))
      held.parts[0].rows = 95;
  });
  const diff found = compare(a.done(), b.done(), {});
  ASSERT_TRUE(found.first);
  // Trainer 0's gradient and trainer 1's rows are unordered, but the rows are the first of the server's messages that
  // differ.
  EXPECT_EQ(found.first->message.a->actor, trainer1);
  EXPECT_EQ(found.first->detail, "tables[0].indices differs (bytes 96 x 1 in A, bytes 95 x 1 in B)");
}

TEST(Diff, MissingAndExtraMessages) {
  run_of a(10);
  run_of b(10, [](trace::made_message& m, trace::content&) {
    if (is(m, "gradient", 7, trainer0)) m.to = run_of::nowhere;
  });
  EXPECT_EQ(first_line(a, b),
            "first difference: step 7, gradient of trainer 0 to server 0 (trainer 0 #14 in A): missing in B; all 40 "
            "messages before it are equal");
  const diff other = compare(b.done(), a.done(), {});
  ASSERT_TRUE(other.first);
  EXPECT_EQ(other.first->what, difference::extra);
  EXPECT_EQ(other.first->message.b->id, trace::made_id(trainer0, 14));
  EXPECT_EQ(other.types.at(0).found[static_cast<std::size_t>(difference::extra)], 1U);
}

TEST(Diff, SizesAndFields) {
  run_of a(3);
  run_of bigger(3, [](trace::made_message& m, trace::content&) {
    if (is(m, "lookup", 3, trainer0)) m.bytes = 108;
  });
  EXPECT_EQ(compare(a.done(), bigger.done(), {}).first->what, difference::size);
  EXPECT_EQ(compare(a.done(), bigger.done(), {}).first->detail, "it has 100 bytes in A, 108 in B");
  run_of fields(3, [](trace::made_message& m, trace::content& held) {
    if (is(m, "lookup", 3, trainer0)) held.fields_digest = 6;
  });
  EXPECT_EQ(compare(a.done(), fields.done(), {}).first->detail,
            "fields differ (digest 0000000000000005 in A, 0000000000000006 in B)");
}

TEST(Diff, WhatDependsOnTimeIsNotCompared) {
  run_of a(3), b(3);
  for (run_of* one : {&a, &b}) {
    const std::uint64_t report = one->message(trainer0, trace::made_recording::master, "epoch_report", 3, 0);
    one->made.edit().contents.back().fields_digest = one == &a ? 1 : 2;
    EXPECT_NE(report, 0U);
  }
  b.message(trainer0, trace::made_recording::master, "progress", 3, 0);
  b.message(0xffff, trace::made_recording::master, "status", 0, 0);
  EXPECT_TRUE(compare(a.done(), b.done(), {}).same());
  b.made.edit().contents[b.made.edit().contents.size() - 3].parts[1].digest = 0;  // the report's losses
  EXPECT_FALSE(compare(a.done(), b.done(), {}).same());
}

/// In step 2, trainer 0's messages reach the server before or after trainer 1's gradient.
run_of run_with(bool trainer_1_first, const char* consistency) {
  run_of made(3, [=](trace::made_message& m, trace::content&) {
    const bool is_late = trainer_1_first && (is(m, "gradient", 2, trainer0) || is(m, "lookup", 3, trainer0));
    if (is_late) m.begin += trace::us(25);
  });
  made.made.edit().processes[0].metadata["job"] = boost::json::object{{"consistency", consistency}};
  return made;
}

TEST(Diff, OrderCountsWhereItMatters) {
  run_of sync = run_with(false, "sync"), swapped_sync = run_with(true, "sync");
  EXPECT_TRUE(compare(sync.done(), swapped_sync.done(), {}).same());
  const diff any = compare(sync.done(), swapped_sync.done(), {.any_order = true, .timing = {}});
  ASSERT_TRUE(any.first);
  EXPECT_EQ(any.first->what, difference::order);

  run_of async = run_with(false, "async"), swapped = run_with(true, "async");
  EXPECT_EQ(first_line(async, swapped),
            "first difference: step 2, gradient of trainer 0 to server 0 (trainer 0 #4): A handled it before gradient "
            "(trainer 1 #4), B after it; all 11 messages before it are equal");
}

TEST(Diff, LookupsMayOvertakeEachOther) {
  const auto late = [](trace::made_message& m, trace::content&) {
    if (is(m, "lookup", 1, trainer0)) m.begin += trace::us(12);
  };
  run_of a(3), b(3, late);
  for (run_of* one : {&a, &b})
    one->made.edit().processes[0].metadata["job"] = boost::json::object{{"consistency", "async"}};
  EXPECT_TRUE(compare(a.done(), b.done(), {}).same());
}

TEST(Diff, TellsThatTheRunsComputedOnOtherDevices) {
  run_of a(3), b(3);
  b.made.edit().processes[0].metadata["devices"] = boost::json::object{{"trainers", true}};
  const diff found = compare(a.done(), b.done(), {});
  EXPECT_TRUE(found.same());
  EXPECT_EQ(found.notes,
            std::vector<std::string>{"the devices differ: the processor in A and {\"trainers\":true} in B"});
}

TEST(Diff, TellsWhichSettingDiffers) {
  run_of a(3), b(3);
  a.made.edit().processes[0].metadata["job"] = boost::json::object{{"data", "adult"}, {"seed", "1"}, {"dim", "8"}};
  b.made.edit().processes[0].metadata["job"] = boost::json::object{{"data", "adult"}, {"seed", "2"}, {"dim", "4"}};
  const diff found = compare(a.done(), b.done(), {});
  EXPECT_TRUE(found.same());
  EXPECT_EQ(found.notes,
            std::vector<std::string>{"the jobs differ: seed is 1 in A and 2 in B; so does 1 other settings"});
}

TEST(Diff, GroupsOfSeveralProcessesCountAsOne) {
  run_of a(3), b(3);
  a.message(trainer0, trace::made_recording::group, "reduce", 3, 0);
  b.made.edit().actors.erase(
      std::ranges::find(b.made.edit().actors, trace::made_recording::group, &trace::actor_state::actor));
  b.made.actor(0x8000, "allreduce 0");
  b.made.actor(0x8001, "allreduce 1");
  b.message(trainer0, 0x8000, "reduce", 3, 0);
  b.message(0x8000, 0x8001, "bucket_share", 3, 0);
  for (trace::event& one : b.made.edit().events) one.bytes += b.made.edit().types[one.type] == "rows" ? 8 : 0;
  const diff found = compare(a.done(), b.done(), {});
  EXPECT_TRUE(found.same());
  EXPECT_EQ(found.compared, 2U + 3 * 6 + 1);
  EXPECT_TRUE(has_note(found, "A has allreduce and B has allreduce 0, allreduce 1: they count as one actor"));
  EXPECT_TRUE(has_note(found, "lookups, rows and gradients have other forms"));
}

TEST(Diff, ActorsThatOnlyOneHasAreNamed) {
  run_of a(3), b(3);
  b.made.actor(9, "server 7");
  b.message(trainer0, 9, "gradient", 3, 0);
  const diff found = compare(a.done(), b.done(), {});
  EXPECT_TRUE(found.same());
  EXPECT_TRUE(has_note(found, "only B has server 7"));
}

TEST(Diff, WithoutContentsItSaysSo) {
  run_of a(3), b(3);
  b.made.edit().contents.clear();
  const diff found = compare(a.done(), b.done(), {});
  EXPECT_TRUE(found.same());
  EXPECT_TRUE(has_note(found, "contents were not recorded in B"));
  EXPECT_EQ(first_line(a, b), "no difference: 20 messages have the same order and size");
}

/// Like the ring of a killed process that holds the records from `since` on.
trace::recording overwritten_before(const trace::recording& run, trace::nanoseconds since, trace::nanoseconds until) {
  trace::recording left = run;
  std::erase_if(left.events, [&](const trace::event& one) { return one.begin < since || one.begin >= until; });
  left.processes[0].overwritten = 1000;
  left.processes[0].complete_from = since;
  left.processes[0].end = trace::ending::none;
  left.processes[0].metadata["mode"] = "ring";
  return left;
}

TEST(Diff, ComparesTheStepsThatBothRingsHold) {
  run_of whole(20);
  constexpr trace::nanoseconds step = trace::us(60);
  const trace::recording a = overwritten_before(whole.done(), trace::us(20) + 3 * step + trace::us(25),
                                                trace::us(20) + 15 * step + trace::us(35));
  const trace::recording b = overwritten_before(whole.done(), trace::us(20) + 6 * step + trace::us(45),
                                                trace::us(20) + 17 * step + trace::us(15));
  const diff found = compare(a, b, {});
  EXPECT_TRUE(found.same());
  EXPECT_TRUE(has_note(found, "the beginning of B has been overwritten: steps from 9 on are compared"));
  EXPECT_TRUE(has_note(found, "after the end of A are not compared"));
  EXPECT_GT(found.compared, 6U * 6);
}

TEST(Diff, ARunThatBrokeOffLacksMessages) {
  run_of whole(20), cut(10);
  cut.made.edit().processes[0].end = trace::ending::none;
  const diff found = compare(whole.done(), cut.done(), {});
  ASSERT_TRUE(found.first);
  EXPECT_EQ(found.first->what, difference::missing);
  EXPECT_EQ(found.first->message.a->step, 11U);
  EXPECT_TRUE(has_note(found, "B did not end cleanly"));
}

TEST(Diff, AFilteredRecordingLacksNothing) {
  run_of whole(5), part(5, [](trace::made_message&m, trace::content&) {
    if (m.type == "lookup") m.to = run_of::nowhere;
  });
  part.made.edit().processes[0].dropped = 12;
  part.made.edit().processes[0].filtered = true;
  const diff found = compare(whole.done(), part.done(), {});
  EXPECT_TRUE(found.same());
  EXPECT_EQ(found.compared, 5U * 4);
  EXPECT_TRUE(has_note(found, "B does not hold all messages"));
}

TEST(Diff, TimesByTheirMedians) {
  run_of a(9);
  // Most gradients take 6 us instead of 4, one takes 40; one message of another type is slow, which does not affect its
  // median.
  run_of b(9, [](trace::made_message& m, trace::content&) {
    if (m.type == "gradient") m.end += m.step == 5 && m.from == trainer1 ? trace::us(36) : trace::us(2);
    if (is(m, "lookup", 3, trainer0)) m.end += trace::ms(1);
  });
  EXPECT_TRUE(compare(a.done(), b.done(), {}).same());
  EXPECT_TRUE(compare(a.done(), b.done(), {.any_order = false, .timing = 60}).same());
  const diff found = compare(a.done(), b.done(), {.any_order = false, .timing = 40});
  EXPECT_FALSE(found.same());
  EXPECT_FALSE(found.first);
  ASSERT_EQ(found.times.size(), 1U);
  EXPECT_EQ(a.done().type_name(found.times[0].type), "gradient");
  EXPECT_EQ(found.times[0].messages, 18U);
  EXPECT_EQ(found.times[0].median_a, trace::us(4));
  EXPECT_EQ(found.times[0].median_b, trace::us(6));
  EXPECT_EQ(found.times[0].worst.a->step, 5U);
  EXPECT_EQ(trace::sender_of(found.times[0].worst.a->id), trainer1);
  EXPECT_NE(diff_text(a.done(), b.done(), found, 20).find("+50 %"), std::string::npos);
}

TEST(Diff, JsonHasTheSame) {
  run_of a(3), b(3, [](trace::made_message&m, trace::content&held) {
    if (is(m, "gradient", 2, trainer1)) held.parts[1].digest = 0;
  });
  const boost::json::object json = diff_json(a.done(), b.done(), compare(a.done(), b.done(), {}));
  EXPECT_EQ(json.at("same"), false);
  const auto& first = json.at("first").as_object();
  EXPECT_EQ(first.at("difference").as_string(), "contents");
  EXPECT_EQ(first.at("step").as_uint64(), 2U);
  EXPECT_EQ(first.at("from").as_string(), "trainer 1");
  EXPECT_EQ(first.at("to").as_string(), "server 0");
  EXPECT_EQ(first.at("message_a").as_string(), "trainer 1 #4");
  EXPECT_EQ(json.at("types").as_array().at(0).at("contents").as_uint64(), 1U);
}

}  // namespace
}  // namespace troupe::analysis::diff_test
