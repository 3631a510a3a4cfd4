// Where loops of a resumed trainer function start.

#include "troupe/runtime/loop_places.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace troupe::loop_places_test {
namespace {

using runtime::loop_places;

/// Runs `n` iterations, from where the loop resumes.
template <class Body>
void loop(loop_places& places, std::uint64_t n, Body body) {
  for (std::uint64_t i = std::min(places.open(), n); i < n; ++i, places.advance()) body(i);
  places.close();
}

struct interrupted {};

/// Nested loops: ABC three times, with B in an inner loop, then DD. Each letter is an optimizer step; after `steps` of
/// them it ends, with its position in `place`.
std::string letters(loop_places& places, int steps, std::vector<std::uint64_t>& place) {
  std::string done;
  const auto step = [&](char letter) {
    done += letter;
    place = places.place();
    if (--steps == 0) throw interrupted();
  };
  try {
    loop(places, 3, [&](std::uint64_t) {
      loop(places, 1, [&](std::uint64_t) { step('A'); });
      loop(places, 2, [&](std::uint64_t) { step('B'); });
      loop(places, 0, [&](std::uint64_t) { step('x'); });
      loop(places, 1, [&](std::uint64_t) { step('C'); });
    });
    loop(places, 2, [&](std::uint64_t) { step('D'); });
    place = places.place();
  } catch (const interrupted&) {
  }
  return done;
}

TEST(LoopPlaces, ARunThatIsResumedAnywhereDoesTheRest) {
  const std::string whole = "ABBCABBCABBCDD";
  for (int steps = 1; steps <= static_cast<int>(whole.size()); ++steps) {
    loop_places first;
    std::vector<std::uint64_t> place;
    const std::string before = letters(first, steps, place);
    EXPECT_EQ(before, whole.substr(0, steps));
    loop_places second;
    second.resume(place);
    EXPECT_EQ(before + letters(second, 100, place), whole) << "after " << steps;
  }
}

TEST(LoopPlaces, ARunThatWasResumedTwiceDoesTheRest) {
  std::vector<std::uint64_t> place;
  loop_places first, second, third;
  std::string done = letters(first, 6, place);
  second.resume(place);
  done += letters(second, 5, place);
  third.resume(place);
  done += letters(third, 100, place);
  EXPECT_EQ(done, "ABBCABBCABBCDD");
}

TEST(LoopPlaces, ARunThatHasEndedDoesNothing) {
  loop_places first;
  std::vector<std::uint64_t> place;
  letters(first, 100, place);
  loop_places again;
  again.resume(place);
  EXPECT_EQ(letters(again, 100, place), "");
}

TEST(LoopPlaces, KnowWhatWasDoneBeforeTheSavedPlace) {
  loop_places places;
  places.resume({0, 2, 0, 3, 0});  // in the third iteration of a loop, after the third one of its inner loop
  EXPECT_TRUE(places.is_before_saved());
  EXPECT_EQ(places.open(), 2U);
  places.enter();
  EXPECT_TRUE(places.is_before_saved()) << "the inner loop is to come";
  EXPECT_EQ(places.open(), 3U);
  EXPECT_TRUE(places.is_before_saved()) << "a loop that is there and has not begun";
  places.enter();
  EXPECT_FALSE(places.is_before_saved());
  places.close();
  EXPECT_FALSE(places.is_before_saved());
}

TEST(LoopPlaces, KnowWhetherTheyAreBeyondTheSavedPlace) {
  loop_places places;
  places.resume({1, 2, 0});  // after the second iteration of the second loop
  EXPECT_TRUE(places.against_saved() < 0);
  EXPECT_EQ(places.open(), loop_places::done_all);
  places.close();
  EXPECT_TRUE(places.against_saved() < 0) << "before the loop that was saved";
  EXPECT_EQ(places.open(), 2U);
  EXPECT_TRUE(places.against_saved() == 0);
  places.advance();
  EXPECT_TRUE(places.against_saved() > 0);
  places.close();
  EXPECT_TRUE(places.against_saved() > 0);
}

TEST(LoopPlaces, AreBeyondALoopThatWasSavedAtItsEnd) {
  loop_places places;
  places.resume({0, 4, 0});
  EXPECT_EQ(places.open(), 4U);
  places.close();
  EXPECT_TRUE(places.against_saved() > 0);
}

/// As `trainer::steps`; ends before iteration `broken_off_at`.
std::string numbers(loop_places& places, std::uint64_t n, std::uint64_t broken_off_at,
                    std::vector<std::uint64_t>& place) {
  std::string done;
  for (std::uint64_t i = std::min(places.open(n), n); i < n && i < broken_off_at; ++i, places.advance())
    done += std::to_string(i);
  places.close();
  place = places.place();
  return done;
}

TEST(LoopPlaces, ALoopThatHasDoneAllGoesOnIfItGetsMore) {
  std::vector<std::uint64_t> place;
  loop_places first, same, more, broken_off, after_that;
  EXPECT_EQ(numbers(first, 3, 9, place), "012");
  same.resume(place);
  more.resume(place);
  EXPECT_EQ(numbers(same, 3, 9, place), "");
  EXPECT_EQ(numbers(more, 5, 9, place), "34");
  EXPECT_EQ(numbers(broken_off, 3, 2, place), "01");
  after_that.resume(place);
  EXPECT_EQ(numbers(after_that, 5, 9, place), "") << "the program has decided that it ends there";
}

TEST(LoopPlaces, AStepBeginsWithItsIteration) {
  loop_places places;
  EXPECT_FALSE(places.is_before_step());
  places.open();
  EXPECT_TRUE(places.is_before_step());
  places.mark_step();
  EXPECT_FALSE(places.is_before_step());
  places.advance();
  EXPECT_TRUE(places.is_before_step());
  places.open();
  places.close();
  EXPECT_FALSE(places.is_before_step()) << "what follows a loop may be no step";
}

TEST(LoopPlaces, AnIterationHasOneStep) {
  loop_places places;
  EXPECT_TRUE(places.none());
  places.open();
  EXPECT_FALSE(places.none());
  EXPECT_TRUE(places.mark_step());
  EXPECT_FALSE(places.mark_step());
  places.advance();
  EXPECT_TRUE(places.mark_step());
}

}  // namespace
}  // namespace troupe::loop_places_test
