// Which buckets are in flight.

#include "actors/collective/bucket_window.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocol/errors.hpp"

namespace troupe::actors::bucket_window_test {
namespace {

class BucketWindow : public testing::Test {
 protected:
  void expect(const bucket_id& id, protocol::errc code, const std::string& text) const {
    const auto refused = window_.check(id);
    EXPECT_EQ(refused, code);
    EXPECT_EQ(protocol::describe(refused), text);
  }

  bucket_window<std::vector<int>> window_;
};

TEST_F(BucketWindow, LateSharesFindTheirBucketOver) {
  window_.open({3, 0});
  window_.open({3, 1});
  window_.close({3, 1});
  EXPECT_FALSE(window_.check({3, 0}));
  expect({3, 1}, protocol::errc::wrong_context, "bucket 1 is over");
  expect({2, 5}, protocol::errc::wrong_context, "bucket 5 is over");
  window_.open({4, 1});
  window_.close({4, 1});
  window_.close({3, 0});
  expect({4, 1}, protocol::errc::wrong_context, "bucket 1 is over");
  expect({3, 2}, protocol::errc::wrong_context, "bucket 2 is over");
  EXPECT_FALSE(window_.check({4, 0}));
}

TEST_F(BucketWindow, AtMostTwoStepsAreUnderWay) {
  window_.open({5, 0});
  EXPECT_FALSE(window_.check({9, 0}));
  window_.open({6, 1023});
  EXPECT_FALSE(window_.check({5, 1}) || window_.check({6, 0}));
  for (const std::uint64_t step : {4, 7})
    expect({step, 0}, protocol::errc::wrong_context,
           "bucket 0 while those of steps 5 and 6 are under way, at most two steps can be");
  window_.close({5, 0});
  EXPECT_FALSE(window_.check({7, 0}));
}

TEST_F(BucketWindow, ANumberBeyondAllBucketsIsRefused) {
  EXPECT_FALSE(window_.check({1, 1023}));
  expect({1, 1024}, protocol::errc::bad_input, "bucket 1024, there are at most 1024");
}

TEST_F(BucketWindow, TheMemoryOfAClosedBucketServesTheNext) {
  std::vector<int>& first = window_.open({1, 0});
  first.assign(100, 1);
  const int* const memory = first.data();
  EXPECT_EQ(window_.find({1, 0}), &first);
  window_.close({1, 0});
  EXPECT_EQ(window_.find({1, 0}), nullptr);
  EXPECT_EQ(window_.open({2, 0}).data(), memory);
}

}  // namespace
}  // namespace troupe::actors::bucket_window_test
