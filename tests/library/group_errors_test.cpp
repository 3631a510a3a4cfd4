// Errors of collectives: calls that differ, trainers that have returned, deadlines, wrong arguments.

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/expect_finds.hpp"
#include "tests/library/places.hpp"
#include "tests/library/run_trainers.hpp"
#include "troupe/troupe.hpp"

namespace troupe::group_errors_test {
namespace {

using test::run;

/// Returns the run's error without the source locations.
template <class Function, class... More>
std::string error_of(std::uint32_t trainers, Function function, More... more) {
  return test::without_places(test::error_of(trainers, function, more...));
}

enum class mistake { other_call, other_size, other_type, other_operation, other_root, other_order };

/// Trainer 2 does what trainer 0 does. All call two collectives first.
task<> disagree(trainer me, mistake what, std::vector<std::string>* seen) {
  const group all = me.group();
  co_await all.barrier();
  const tensor mine(shape(4));
  const tensor longer(shape(5));
  const tensor doubles(shape(4), dtype::f64);
  co_await all.all_reduce(mine);
  const bool is_odd = me.rank() == 1;
  try {
    switch (what) {
      case mistake::other_call:
        if (is_odd)
          co_await all.broadcast(mine, 0);
        else
          co_await all.all_reduce(mine);
        break;
      case mistake::other_size:
        co_await all.all_reduce(is_odd ? longer : mine);
        break;
      case mistake::other_type:
        co_await all.all_gather(is_odd ? doubles : mine);
        break;
      case mistake::other_operation:
        co_await all.all_reduce(mine, is_odd ? reduce_op::max : reduce_op::mean);
        break;
      case mistake::other_root:
        co_await all.broadcast(mine, is_odd ? 1 : 0);
        break;
      case mistake::other_order: {
        auto first = all.all_reduce(is_odd ? longer : mine);
        co_await all.all_reduce(is_odd ? mine : longer);
        break;
      }
    }
  } catch (const error& e) {
    (*seen)[me.rank()] = e.what();
  }
  const std::vector<float> ones = {1};
  const tensor one = tensor::of<float>(shape(1), ones);
  const tensor sum = co_await all.all_reduce(one);
  (*seen)[me.rank()] += sum.item() == 3 ? " | the next one is right" : " | the next one is wrong";
}

void expect_named(mistake what, const std::string& right, const std::string& wrong) {
  std::vector<std::string> seen(3);
  run(3, disagree, what, &seen);
  for (std::string& one : seen) one = test::without_places(one);
  const std::string end = "; all members of a group call the same, in the same order | the next one is right";
  const std::string number = what == mistake::other_order ? "4th" : "3rd";
  for (const std::uint32_t rank : {0U, 2U})
    EXPECT_EQ(seen[rank], "trainer " + std::to_string(rank) + " calls " + right + " as its " + number +
                              " collective, trainer 1 calls " + wrong + end);
  // Either of the other trainers may be first.
  EXPECT_TRUE(seen[1].starts_with("trainer 1 calls " + wrong + " as its " + number + " collective, trainer "))
      << seen[1];
  EXPECT_TRUE(seen[1].ends_with(" calls " + right + end)) << seen[1];
}

TEST(GroupErrors, NameCallsThatDiffer) {
  expect_named(mistake::other_call, "all_reduce sum [4] of float32", "broadcast from trainer 0");
  expect_named(mistake::other_size, "all_reduce sum [4] of float32", "all_reduce sum [5] of float32");
  expect_named(mistake::other_type, "all_gather [4] of float32", "all_gather [4] of float64");
  expect_named(mistake::other_operation, "all_reduce mean [4] of float32", "all_reduce max [4] of float32");
  expect_named(mistake::other_root, "broadcast from trainer 0", "broadcast from trainer 1");
  expect_named(mistake::other_order, "all_reduce sum [5] of float32", "all_reduce sum [4] of float32");
}

task<> return_before(trainer me) {
  co_await me.group().barrier();
  if (me.rank() == 1) co_return;
  co_await me.group().all_gather(tensor(shape(2)));
}

TEST(GroupErrors, NameATrainerThatHasReturned) {
  EXPECT_EQ(
      error_of(2, return_before),
      "trainer 0, step 0: trainer 0 calls all_gather [2] of float32 as its 2nd collective, which trainer 1 has not "
      "called: its function has returned");
}

task<> throw_before(trainer me) {
  co_await me.group().barrier();
  auto context = me.new_context();
  if (me.rank() == 1) throw std::runtime_error("the disk is full");
  co_await me.group().barrier();
}

TEST(GroupErrors, HaveTheTextOfWhoThrowsWhileOthersWait) {
  EXPECT_EQ(error_of(3, throw_before), "trainer 1, step 1: the disk is full");
}

/// Trainer 1 waits for a tensor that is never sent, and does not join the collective.
task<> stay_away(trainer me) {
  if (me.rank() == 1) co_await me.group().recv(0);
  const group hurried = me.group().with_deadline(std::chrono::milliseconds(50));
  if (me.rank() == 2) co_await me.group().barrier();
  co_await hurried.barrier();
}

TEST(GroupErrors, NameWhoHasNotCalledInTime) {
  EXPECT_EQ(
      error_of(3, stay_away),
      "trainer 0, step 0: trainer 0 calls barrier as its 1st collective, which trainer 1 did not call within 0.05 s");
}

/// Trainer 0 waits for a tensor, and both in a barrier.
task<> wait_for_ever(trainer me) {
  const group patient = me.group().with_deadline(std::chrono::milliseconds::max());
  const tensor mine(shape(1));
  if (me.rank() == 0) co_await patient.recv(1);
  if (me.rank() == 1) patient.send(mine, 0);
  co_await patient.barrier();
}

TEST(GroupErrors, AreNoneOfADeadlineThatNeverComes) { EXPECT_EQ(error_of(2, wait_for_ever), "no error"); }

task<> wait_elsewhere(trainer me) {
  const group all = me.group();
  const group two = all.subgroup({0, 1});
  if (me.rank() == 1) co_await two.barrier();
  co_await all.with_deadline(std::chrono::milliseconds(50)).barrier();
}

TEST(GroupErrors, TellWhatTheMissingOneCallsElsewhere) {
  const std::string text = error_of(2, wait_elsewhere);
  const std::string whole =
      "trainer 0, step 0: trainer 0 calls barrier as its 1st collective, which trainer 1 did not call within 0.05 s; "
      "trainer 1 calls barrier as its 1st collective with trainers 0, 1";
  EXPECT_EQ(text, whole);
}

task<> receive_too_much(trainer me) {
  if (me.rank() == 0) co_await me.group().recv(1, 5);
}

task<> receive_late(trainer me) {
  if (me.rank() == 0) co_await me.group().with_deadline(std::chrono::milliseconds(50)).recv(1, 5);
  co_await me.group().barrier();
}

task<> receive_too_little(trainer me) {
  if (me.rank() == 0) me.group().send(tensor(shape(4)), 1, 3);
  co_await me.group().barrier();
}

/// The tensor arrives before or after trainer 1 returns.
task<> send_at_the_end(trainer me) {
  if (me.rank() == 0) me.group().send(tensor(shape(4)), 1, 3);
  co_return;
}

TEST(GroupErrors, NameWhatIsSentAndNotReceived) {
  EXPECT_EQ(error_of(2, receive_too_much),
            "trainer 0, step 0: trainer 0 waits for a tensor with tag 5 of trainer 1, whose function has returned");
  EXPECT_EQ(
      error_of(2, receive_late),
      "trainer 0, step 0: trainer 0 waits for a tensor with tag 5 of trainer 1, which has sent none within 0.05 s");
  EXPECT_EQ(error_of(2, receive_too_little),
            "trainer 1, step 0: returned without having received [4] of float32 that trainer 0 has sent with tag 3");
  for (int i = 0; i < 20; ++i) {
    const std::string text = error_of(2, send_at_the_end);
    EXPECT_TRUE(text.starts_with("trainer 0, step 0: ") || text.starts_with("trainer 1, step 0: ")) << text;
    EXPECT_NE(text.find("trainer 0 has sent"), std::string::npos) << text;
  }
}

// -- source locations -----------------------------------------------------------------------

enum class meeting { differs, returns, waits };

/// Trainer 1 does not join trainer 0's collective.
task<> miss(trainer me, meeting what, std::vector<int>* lines) {
  const group all = me.group();
  int& line = (*lines)[me.rank()];
  const tensor x(shape(3));
  if (me.rank() == 0 && what == meeting::waits) {
    line = __LINE__ + 1;
    co_await all.recv(1, 4);
  } else if (me.rank() == 0) {
    line = __LINE__ + 1;
    co_await all.all_reduce(x);
  } else if (what == meeting::differs) {
    line = __LINE__ + 1;
    co_await all.barrier();
  }
}

std::string places_of(meeting what, std::vector<int>& lines) {
  lines.assign(2, 0);
  return test::error_of(2, miss, what, &lines);
}

std::string place_of(int line) { return test::place_at("group_errors_test.cpp", line); }

TEST(GroupErrors, NamePlacesInTheCode) {
  std::vector<int> lines;
  const std::string differs = places_of(meeting::differs, lines);
  EXPECT_FINDS(differs, "trainer 0 calls all_reduce sum [3] of float32" + place_of(lines[0]));
  EXPECT_FINDS(differs, "trainer 1 calls barrier" + place_of(lines[1]));
  const std::string returns = places_of(meeting::returns, lines);
  EXPECT_FINDS(returns, "trainer 0 calls all_reduce sum [3] of float32" + place_of(lines[0]) +
                            " as its 1st collective, which trainer 1 has not called");
  const std::string waits = places_of(meeting::waits, lines);
  EXPECT_FINDS(waits, "trainer 0 waits for a tensor with tag 4 of trainer 1" + place_of(lines[0]) +
                          ", whose function has returned");
}

/// Trainer 1 has received the tensor by the time its function returns.
task<> leave_a_tensor(trainer me, std::vector<int>* lines) {
  const tensor x(shape(3));
  (*lines)[me.rank()] = __LINE__ + 1;
  if (me.rank() == 0) me.group().send(x, 1, 4);
  co_await me.group().barrier();
}

TEST(GroupErrors, NameThePlaceOfWhatIsSentAndNotReceived) {
  std::vector<int> lines(2);
  const std::string text = test::error_of(2, leave_a_tensor, &lines);
  EXPECT_FINDS(text, "without having received [3] of float32 that trainer 0 has sent with tag 4" + place_of(lines[0]));
}

enum class misuse { mean, no_tensor, root, parts, rows, partner, self, stranger, twice };

task<> call_wrongly(trainer me, misuse what) {
  const group all = me.group();
  const tensor whole(shape(3), dtype::i64);
  const std::vector<tensor> one = {whole};
  switch (what) {
    case misuse::mean:
      co_await all.all_reduce(whole, reduce_op::mean);
      break;
    case misuse::no_tensor:
      co_await all.all_reduce(tensor());
      break;
    case misuse::root:
      co_await all.broadcast(whole, 2);
      break;
    case misuse::parts:
      co_await all.scatter(one, 0);
      break;
    case misuse::rows:
      co_await all.reduce_scatter(whole);
      break;
    case misuse::partner:
      all.send(whole, 2);
      break;
    case misuse::self:
      all.send(whole, 0);
      break;
    case misuse::stranger:
      all.subgroup({1});
      break;
    case misuse::twice:
      all.subgroup({0, 0});
      break;
  }
}

TEST(GroupErrors, NameArgumentsThatAreWrong) {
  const auto text = [](misuse what) {
    std::string whole = error_of(2, call_wrongly, what);
    return whole.substr(std::min(whole.size(), whole.find(": ") + 2));
  };
  EXPECT_EQ(text(misuse::mean), "all_reduce mean [3] of int64: int64 has no mean; try the sum, or float64");
  EXPECT_EQ(text(misuse::no_tensor), "all_reduce sum [] of float32: a tensor without numbers");
  EXPECT_EQ(text(misuse::root), "broadcast: root 2, the group has ranks 0 to 1");
  EXPECT_EQ(text(misuse::parts), "scatter from trainer 0: 1 tensors for 2 ranks");
  EXPECT_EQ(text(misuse::rows),
            "reduce_scatter sum [3] of int64: the first dimension must be a multiple of the 2 ranks");
  EXPECT_EQ(text(misuse::partner), "send of [3] of int64: rank 2, the group has ranks 0 to 1");
  EXPECT_EQ(text(misuse::twice), "subgroup({0, 0}): a rank twice");
}

}  // namespace
}  // namespace troupe::group_errors_test
