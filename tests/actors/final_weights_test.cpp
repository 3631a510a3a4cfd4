// The weights at a run's end, for all ways of spreading them over servers.

#include "actors/master/final_weights.hpp"

#include "tests/actors/master_parts.hpp"

namespace troupe::actors::final_weights_test {
namespace {

class FinalWeights : public master_parts_stage {
 protected:
  static msg::trained result_of(std::uint64_t digest) {
    msg::trained made;
    made.steps = 0;
    made.dense_digest = digest;
    made.dense = msg::tensor::own(3, 1, std::vector<float>{1, 2, 3});
    return made;
  }

  /// Returns the result for these tables on `servers` servers.
  msg::run_result collect(std::uint32_t servers, std::uint64_t dense_digest) {
    plan({{20, 2, kernels::pooling::sum, false, 50}, {4, 3}}, servers, 2);
    plan_.return_weights = true;
    msg::run_result result;
    int done = 0;
    as_master([&](master_parts& mine) {
      mine.tables.start(plan_, servers_, [&] {
        for (const std::uint32_t rank : {0U, 1U}) mine.weights.add(rank, result_of(dense_digest));
        EXPECT_FALSE(mine.weights.check());
        mine.weights.collect(plan_, mine.tables.tables(), [&] { ++done; });
      });
    });
    run();
    EXPECT_EQ(done, 1);
    parts_->weights.fill(result);
    return result;
  }
};

TEST_F(FinalWeights, ThoseOfOneServerAreTheGivenOnes) {
  const msg::run_result whole = collect(1, 17);
  const auto given = data_->start()->tables;
  ASSERT_EQ(whole.tables.size(), 2u);
  for (std::size_t t = 0; t < 2; ++t) {
    const auto found = whole.tables[t].as<float>();
    EXPECT_EQ(std::vector<float>(found.begin(), found.end()), given[t]);
  }
  EXPECT_EQ(whole.dense.as<float>()[2], 3);
  weights_digest digest({{20, 1}, {4, 1}});
  while (const auto part = digest.next()) {
    const auto& dim = data_->spec().tables[part->table].dim;
    std::vector<std::uint64_t> rows;
    for (std::uint64_t row = part->first; row < part->first + part->rows; ++row)
      rows.push_back(digest_of(reinterpret_cast<const std::byte*>(given[part->table].data() + row * dim), dim * 4));
    ASSERT_TRUE(digest.add(*part, msg::tensor::own(part->rows, 1, std::move(rows))));
  }
  const std::vector<float> dense = {1, 2, 3};  // of rank 0
  EXPECT_EQ(whole.weights_digest, digest.text(digest_of(reinterpret_cast<const std::byte*>(dense.data()), 12)));
}

TEST_F(FinalWeights, ThoseOfThreeServersAreTheSame) {
  const msg::run_result spread = collect(3, 17);
  ASSERT_EQ(parts_->tables.tables()[0].size(), 3u);
  const auto given = data_->start()->tables;
  ASSERT_EQ(spread.tables.size(), 2u);
  for (std::size_t t = 0; t < 2; ++t) {
    const auto found = spread.tables[t].as<float>();
    EXPECT_EQ(std::vector<float>(found.begin(), found.end()), given[t]);
  }
}

TEST_F(FinalWeights, TrainersThatHaveNotComeToTheSameWeightsAreAnError) {
  as_master([](master_parts& mine) {
    for (const std::uint32_t rank : {2U, 0U, 1U}) mine.weights.add(rank, result_of(rank == 2 ? 18 : 17));
    EXPECT_EQ(protocol::describe(mine.weights.check()), "master, step 0: the dense weights of trainers 0 and 2 differ");
  });
}

TEST_F(FinalWeights, AModelWithoutTablesHasADigestAtOnce) {
  plan({}, 0, 1);
  int done = 0;
  as_master([&](master_parts& mine) {
    mine.weights.add(0, result_of(17));
    mine.weights.collect(plan_, mine.tables.tables(), [&] { ++done; });
  });
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace troupe::actors::final_weights_test
