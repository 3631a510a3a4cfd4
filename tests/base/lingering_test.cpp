// How long threads look for work: they find it, or give up.

#include "base/lingering.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace troupe::lingering_test {
namespace {

using namespace std::chrono_literals;

TEST(Lingering, WhatIsThereIsFoundAtOnce) {
  lingering lingers(1h);
  int looks = 0;
  EXPECT_TRUE(lingers.look([&] { return ++looks == 1; }));
  EXPECT_EQ(looks, 1);
}

TEST(Lingering, NobodyLooksWithoutTime) {
  lingering lingers(0us);
  EXPECT_FALSE(lingers.look([]() -> bool { throw std::logic_error("somebody looked"); }));
}

TEST(Lingering, WhatDoesNotComeIsGivenUp) {
  lingering lingers(1us);
  int looks = 0;
  EXPECT_FALSE(lingers.look([&] {
    ++looks;
    return false;
  }));
  EXPECT_GE(looks, 1);
}

// An hour is long enough for the third look; but other threads may keep the core, which ends a search.
TEST(Lingering, WhatComesLaterIsFoundToo) {
  bool found = false;
  for (int search = 0; search < 1000 && !found; ++search) {
    lingering lingers(1h);
    int looks = 0;
    found = lingers.look([&] { return ++looks == 3; });
  }
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace troupe::lingering_test
