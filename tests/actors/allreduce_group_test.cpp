// The allreduce group: rank order, uneven ranks, agreement to stop, errors.

#include "actors/collective/allreduce_group.hpp"

#include "tests/actors/stage.hpp"

namespace troupe::actors::allreduce_group_test {
namespace {

class AllreduceGroup : public stage {
 protected:
  msg::reduce share(std::uint64_t step, std::uint32_t rank, std::vector<float> numbers, std::uint32_t batches = 1,
                    bool wishes = false) {
    const std::uint64_t count = numbers.size();
    return {{1, step, 0, 0, ++sequence_, 0},
            rank,
            0,
            batches,
            wishes,
            msg::tensor::own(count, 1, std::move(numbers)),
            wishes};
  }

  std::vector<float> result_of(const std::shared_ptr<outcome<msg::reduced>>& answer) {
    EXPECT_TRUE(answer->value) << protocol::describe(answer->error);
    if (!answer->value) return {};
    const auto numbers = answer->value->grad.as<float>();
    return {numbers.begin(), numbers.end()};
  }

  std::uint64_t sequence_ = 0;
};

TEST_F(AllreduceGroup, EveryoneGetsTheMeanSummedInRankOrder) {
  const std::vector<std::vector<float>> shares = {{1, 3}, {1e8F, 5}, {-1e8F, 7}};
  const std::vector<float> expected = {((1.0F + 1e8F) + -1e8F) * (1.0F / 3.0F), 15.0F * (1.0F / 3.0F)};
  for (std::vector<std::uint32_t> order : {std::vector<std::uint32_t>{0, 1, 2}, {2, 0, 1}, {1, 2, 0}}) {
    auto group = spawn(allreduce_group, std::uint64_t{1}, group_layout::one_process(3));
    std::vector<std::shared_ptr<outcome<msg::reduced>>> answers;
    for (std::uint32_t rank : order) {
      for (const auto& answer : answers) EXPECT_TRUE(answer->pending());
      answers.push_back(ask<msg::reduced>(group, share(1, rank, shares[rank])));
      run();
    }
    for (const auto& answer : answers) EXPECT_EQ(result_of(answer), expected);
  }
}

TEST_F(AllreduceGroup, RanksWithoutABatchDoNotCount) {
  auto group = spawn(allreduce_group, std::uint64_t{1}, group_layout::one_process(3));
  auto a = ask<msg::reduced>(group, share(1, 0, {2}));
  auto b = ask<msg::reduced>(group, share(1, 1, {0}, false));
  auto c = ask<msg::reduced>(group, share(1, 2, {4}));
  run();
  EXPECT_EQ(result_of(a), std::vector<float>{3});
  EXPECT_EQ(result_of(b), std::vector<float>{3});
  EXPECT_EQ(result_of(c), std::vector<float>{3});
}

TEST_F(AllreduceGroup, OneWishReachesAllInItsStep) {
  auto group = spawn(allreduce_group, std::uint64_t{1}, group_layout::one_process(2));
  auto a = ask<msg::reduced>(group, share(1, 0, {1}));
  auto b = ask<msg::reduced>(group, share(1, 1, {1}, true, true));
  auto c = ask<msg::reduced>(group, share(2, 0, {1}));
  auto d = ask<msg::reduced>(group, share(2, 1, {1}));
  run();
  EXPECT_TRUE(a->value->stop && b->value->stop && a->value->save && b->value->save);
  EXPECT_FALSE(c->value->stop || d->value->stop || c->value->save || d->value->save);
}

TEST_F(AllreduceGroup, StepsDoNotMix) {
  auto group = spawn(allreduce_group, std::uint64_t{1}, group_layout::one_process(2));
  auto a = ask<msg::reduced>(group, share(1, 0, {1}));
  auto b = ask<msg::reduced>(group, share(2, 0, {10}));
  run();
  EXPECT_TRUE(a->pending() && b->pending());
  auto c = ask<msg::reduced>(group, share(2, 1, {20}));
  run();
  EXPECT_TRUE(a->pending());
  EXPECT_EQ(result_of(b), std::vector<float>{15});
}

TEST_F(AllreduceGroup, SharesThatDoNotFitAreRefusedWithTheReason) {
  auto group = spawn(allreduce_group, std::uint64_t{1}, group_layout::one_process(2));
  auto first = ask<msg::reduced>(group, share(1, 0, {1, 2}));
  run();
  auto twice = ask<msg::reduced>(group, share(1, 0, {1, 2}));
  auto narrow = ask<msg::reduced>(group, share(1, 1, {1}));
  auto nobody = ask<msg::reduced>(group, share(1, 2, {1, 2}));
  run();
  EXPECT_EQ(twice->error, protocol::errc::wrong_context);
  EXPECT_EQ(narrow->error, protocol::errc::shape_mismatch);
  EXPECT_NE(protocol::describe(narrow->error).find("rank 1 sent 4 bytes, rank 0 sent 8"), std::string::npos);
  EXPECT_EQ(nobody->error, protocol::errc::bad_input);
  EXPECT_TRUE(first->pending());
}

}  // namespace
}  // namespace troupe::actors::allreduce_group_test
