// The exchange with parameter servers, without actors: shards of the tables answer lookups and apply gradients. No bit
// may depend on the number of shards.

#include "actors/trainer/sparse_client.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "actors/server/row_codec.hpp"
#include "protocol/errors.hpp"
#include "tests/actors/rounding.hpp"
#include "tests/actors/sparse_client_support.hpp"
#include "tests/actors/spread_tables.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::actors::sparse_client_test {
namespace {

using kernels::optimizer_kind;
using kernels::pooling;
using kernels::row_dtype;
using kernels::test::make_bags;
using kernels::test::same_bits;
using kernels::test::source_of_numbers;

TEST(SparseClient, AWholeTableIsPooledHereWhereThatSendsLess) {
  model::data_spec spec;
  spec.tables = {{50, 4, pooling::sum, false}, {50, 4, pooling::mean, false}, {50, 4, pooling::sum, true}};
  const model::input_layout layout(spec);
  const spread_tables remote(spec, 1, {}, row_dtype::f32, true);
  const spread_tables local(spec, 1, {});
  auto samples = std::make_shared<model::batch>();
  samples->size = 3;
  // Three bags with: two distinct rows; three; none.
  samples->tables = {{{7, 9, 7, 9, 9}, {0, 2, 4}, {}}, {{7, 9, 7, 8, 9}, {0, 2, 4}, {}}, {{}, {0, 0, 0}, {}}};
  const auto plan = remote.client().prepare(1, samples);
  const auto asked = [](const msg::bag_lookup& wanted) {
    const auto indices = wanted.indices.as<std::int64_t>();
    return std::vector<std::int64_t>(indices.begin(), indices.end());
  };
  ASSERT_EQ(plan.lookups[0].size(), 3u);
  EXPECT_TRUE(plan.tables[0].is_pooled_here);
  EXPECT_EQ(asked(plan.lookups[0][0]), (std::vector<std::int64_t>{7, 9}));
  EXPECT_TRUE(plan.lookups[0][0].offsets.empty());
  EXPECT_FALSE(plan.tables[1].is_pooled_here);
  EXPECT_EQ(asked(plan.lookups[0][1]), samples->tables[1].indices);
  EXPECT_EQ(plan.lookups[0][1].offsets.size(), 3 * sizeof(std::int64_t));
  EXPECT_TRUE(plan.tables[1].indices.empty());
  EXPECT_TRUE(plan.tables[2].is_pooled_here);
  EXPECT_TRUE(plan.lookups[0][2].indices.empty() && plan.lookups[0][2].offsets.empty());
  for (const auto& table : local.client().prepare(1, samples).tables) EXPECT_FALSE(table.is_pooled_here);

  // The messages carried two rows and their gradients, and three pooled rows and theirs.
  auto answered = plan;
  const auto answers = remote.answer(plan);
  EXPECT_EQ(answers[0].tables[0].rows, 2u);
  EXPECT_EQ(answers[0].tables[1].rows, 3u);
  EXPECT_EQ(answers[0].tables[2].rows, 0u);
  std::vector<float> input(3 * layout.width);
  ASSERT_FALSE(pool(remote.client(), answered, answers, input));
  const auto gradients = gradients_of(remote.client(), answered, input);
  EXPECT_EQ(gradients[0][0].grad.rows, 2u);
  EXPECT_EQ(gradients[0][1].grad.rows, 3u);
  EXPECT_EQ(gradients[0][2].grad.rows, 0u);
}

TEST(SparseClient, InputIsTheDenseFeaturesAndThenEachTablePooledInItsColumns) {
  const model::data_spec spec = all_modes();
  const model::input_layout layout(spec);
  const spread_tables whole(spec, 1, {});
  source_of_numbers random(2);
  for (const std::uint32_t shards : {1U, 2U, 3U, 5U}) {
    const spread_tables tables(spec, shards, {});
    const auto samples = random_batch(random, spec, 12, false);
    auto plan = tables.client().prepare(1, samples);
    std::vector<float> input(12 * layout.width, untouched);
    ASSERT_FALSE(pool(tables.client(), plan, tables.answer(plan), input));
    auto expected = std::vector<float>(input.size(), untouched);
    for (std::size_t row = 0; row < 12; ++row)
      std::copy_n(samples->dense.data() + row * spec.dense_features, spec.dense_features,
                  expected.data() + row * layout.width);
    for (std::size_t t = 0; t < spec.tables.size(); ++t) {
      const std::size_t dim = spec.tables[t].dim;
      std::vector<float> pooled(12 * dim);
      whole.table(t, 0).forward(samples->tables[t], pooled.data());
      for (std::size_t row = 0; row < 12; ++row)
        std::copy_n(pooled.data() + row * dim, dim, expected.data() + row * layout.width + layout.columns[t]);
    }
    EXPECT_TRUE(kernels::test::same_bits(input, expected)) << shards;
  }
}

TEST(SparseClient, RowsPooledHereTravelOnceEach) {
  const model::data_spec spec = all_modes();
  const model::input_layout layout(spec);
  source_of_numbers random(3);
  for (const auto& [shards, wire] :
       {std::pair{1U, row_dtype::f32}, {2U, row_dtype::f32}, {5U, row_dtype::f32}, {1U, row_dtype::f16}}) {
    const spread_tables tables(spec, shards, {}, wire);
    const auto samples = random_batch(random, spec, 30, false);
    const auto plan = tables.client().prepare(1, samples);
    for (std::size_t t = 0; t < spec.tables.size(); ++t) {
      const auto& indices = samples->tables[t].indices;
      if (shards == 1 && wire == row_dtype::f32 && spec.tables[t].mode != pooling::max) {
        // Pooled on the server: the batch's own memory travels.
        EXPECT_EQ(plan.lookups[0][t].indices.as<std::int64_t>().data(), indices.data());
        EXPECT_EQ(plan.lookups[0][t].offsets.as<std::int64_t>().data(), samples->tables[t].offsets.data());
        continue;
      }
      std::multiset<std::int64_t> asked;
      for (std::size_t s = 0; s < shards; ++s) {
        EXPECT_TRUE(plan.lookups[s][t].offsets.empty() && plan.lookups[s][t].weights.empty());
        for (const std::int64_t row : plan.lookups[s][t].indices.as<std::int64_t>())
          asked.insert(tables.table(t, s).whole_row(row));
      }
      const std::set<std::int64_t> distinct(indices.begin(), indices.end());
      EXPECT_EQ(asked, std::multiset<std::int64_t>(distinct.begin(), distinct.end())) << "table " << t;
    }
  }
}

// Two samples: rows 1, 3 and 3 again, summed; then row 1 alone. The rows and the sums of their gradients are rounded to
// 16 bits independently of the kernels.
TEST(SparseClient, SixteenBitsRoundSingleRowsAndEachRowsWholeGradient) {
  model::data_spec spec;
  spec.tables = {{5, 4, pooling::sum, false}};
  spec.dense_features = 1;
  const model::input_layout layout(spec);
  auto samples = std::make_shared<model::batch>();
  samples->size = 2;
  samples->dense = {untouched, untouched};
  samples->tables = {{{1, 3, 3, 1}, {0, 3}, {}}};
  source_of_numbers random(5);
  for (const row_dtype wire : {row_dtype::f16, row_dtype::bf16}) {
    for (const std::uint32_t shards : {1U, 2U, 3U}) {
      const spread_tables tables(spec, shards, {}, wire);
      const auto weights = tables.weights(0);
      auto plan = tables.client().prepare(1, samples);
      std::vector<float> input(2 * layout.width, untouched);
      ASSERT_FALSE(pool(tables.client(), plan, tables.answer(plan), input));
      const std::size_t column = layout.columns[0];
      const auto grad = random.numbers(input.size());
      const auto gradients = gradients_of(tables.client(), plan, grad);
      for (std::size_t d = 0; d < 4; ++d) {
        const float row_1 = rounded(weights[1 * 4 + d], wire);
        const float row_3 = rounded(weights[3 * 4 + d], wire);
        EXPECT_EQ(input[column + d], row_1 + row_3 + row_3);
        EXPECT_EQ(input[layout.width + column + d], row_1);
        const float first = grad[column + d];
        const float second = grad[layout.width + column + d];
        const float expected[] = {rounded(first + second, wire), rounded(first + first, wire)};
        std::size_t found = 0;
        for (std::uint32_t s = 0; s < shards; ++s) {
          const msg::bag_gradient& sent = gradients[s][0];
          EXPECT_EQ(sent.grad.bytes.size(), sent.grad.rows * 4 * 2);
          std::vector<float> numbers(sent.grad.rows * 4);
          decode_rows(sent.grad, numbers.data());
          const auto rows_here = sent.indices.as<std::int64_t>();
          for (std::size_t i = 0; i < rows_here.size(); ++i, ++found)
            EXPECT_EQ(numbers[i * 4 + d], expected[tables.table(0, s).whole_row(rows_here[i]) == 1 ? 0 : 1]);
        }
        EXPECT_EQ(found, 2u) << "each distinct row once";
      }
    }
  }
}

TEST(SparseClient, WhatSixteenBitsDoNotHoldIsNamedWithWhatToTry) {
  model::data_spec spec;
  spec.tables = {{5, 4, pooling::mean, false}, {7, 2, pooling::sum, false}};
  const model::input_layout layout(spec);
  auto samples = std::make_shared<model::batch>();
  samples->size = 2;
  samples->tables = {{{1, 3}, {0, 1}, {}}, {{2, 6}, {0, 1}, {}}};
  for (const std::uint32_t shards : {1U, 2U, 3U}) {
    const spread_tables narrow(spec, shards, {}, row_dtype::f16);
    const spread_tables wide(spec, shards, {}, row_dtype::bf16);
    std::vector<float> input(2 * layout.width);
    std::vector<float> grad(input.size(), 1.0F);
    grad[layout.width + layout.columns[1] + 1] = -66000;
    auto plan = narrow.client().prepare(1, samples);
    auto answers = narrow.answer(plan);
    ASSERT_FALSE(pool(narrow.client(), plan, answers, input));
    EXPECT_FALSE(narrow.client().check_rows(plan));
    const auto error = narrow.client().check_gradients(plan, gradients_of(narrow.client(), plan, grad));
    EXPECT_EQ(error, protocol::errc::not_finite);
    EXPECT_EQ(protocol::describe(error),
              "table 1: the gradient of row 6 is NaN or Inf as float16; try --wire-dtype bf16 or f32 (f16 ends at "
              "65504), or a smaller learning rate (--dense-lr, --sparse-lr)");
    // As if the rows of row 3's server had grown too large.
    const std::vector<float> beyond(answers[3 % shards].tables[0].rows * 4, 70000.0F);
    auto& of_server = answers[3 % shards].tables[0];
    of_server = encode_rows(beyond.data(), of_server.rows, 4, row_dtype::f16);
    plan.answers = answers;
    const auto in_rows = narrow.client().check_rows(plan);
    EXPECT_EQ(in_rows, protocol::errc::not_finite);
    EXPECT_EQ(protocol::describe(in_rows).rfind("table 0: row ", 0), 0u) << protocol::describe(in_rows);

    plan = wide.client().prepare(1, samples);
    ASSERT_FALSE(pool(wide.client(), plan, wide.answer(plan), input));
    EXPECT_FALSE(wide.client().check_gradients(plan, gradients_of(wide.client(), plan, grad)));
  }
}

// Rows 2 and 4 are equal: the first in the bag gets the gradient. Row 3 is larger in one column.
TEST(SparseClient, GradientOfAMaximumGoesToTheRowThatHadIt) {
  model::data_spec spec;
  spec.tables = {{6, 2, pooling::max, false}};
  spec.dense_features = 1;
  const model::input_layout layout(spec);
  auto samples = std::make_shared<model::batch>();
  samples->size = 3;
  samples->dense.assign(3, 0);
  samples->tables = {{{4, 2, 3, 2}, {0, 3, 3}, {}}};
  for (const std::uint32_t shards : {1U, 2U, 3U}) {
    const spread_tables tables(spec, shards, {});
    auto plan = tables.client().prepare(1, samples);
    const std::vector<float> table = {0, 0, 0, 0, 5, 1, 4, 9, 5, 1, 0, 0};
    std::vector<msg::rows> answers(shards);
    for (std::size_t s = 0; s < shards; ++s) {
      std::vector<float> numbers;
      for (const std::int64_t row : plan.lookups[s][0].indices.as<std::int64_t>()) {
        const auto whole = static_cast<std::size_t>(tables.table(0, s).whole_row(row));
        numbers.insert(numbers.end(), {table[2 * whole], table[2 * whole + 1]});
      }
      answers[s].tables.push_back(msg::tensor::own(numbers.size() / 2, 2, std::move(numbers)));
    }
    std::vector<float> input(9);
    ASSERT_FALSE(pool(tables.client(), plan, answers, input));
    EXPECT_EQ(input, (std::vector<float>{0, 5, 9, 0, 0, 0, 0, 5, 1}));
    const std::vector<float> grad = {99, 1, 2, 99, 3, 4, 99, 5, 6};
    const auto gradients = gradients_of(tables.client(), plan, grad);
    std::vector<float> dense(12);
    for (std::size_t s = 0; s < shards; ++s) {
      const auto asked = gradients[s][0].indices.as<std::int64_t>();
      const auto numbers = gradients[s][0].grad.as<float>();
      ASSERT_EQ(numbers.size(), 2 * asked.size());
      for (std::size_t i = 0; i < asked.size(); ++i) {
        const auto whole = static_cast<std::size_t>(tables.table(0, s).whole_row(asked[i]));
        for (std::size_t d = 0; d < 2; ++d) dense[2 * whole + d] += numbers[2 * i + d];
      }
    }
    EXPECT_EQ(dense, (std::vector<float>{0, 0, 0, 0, 5, 6, 0, 2, 1, 0, 0, 0})) << shards;
  }
}

TEST(SparseClient, AnswersOfAnotherShapeAreRefused) {
  const model::data_spec spec = all_modes();
  const model::input_layout layout(spec);
  source_of_numbers random(4);
  const auto samples = random_batch(random, spec, 9, false);
  for (const auto& [shards, wire] :
       {std::pair{1U, row_dtype::f32}, {2U, row_dtype::f32}, {3U, row_dtype::f32}, {2U, row_dtype::bf16}}) {
    const spread_tables tables(spec, shards, {}, wire);
    const auto plan = tables.client().prepare(1, samples);
    const auto answers = tables.answer(plan);
    const auto expect_refusal = [&](std::size_t t, std::size_t s, const auto& poison) {
      auto spoilt = answers;
      poison(spoilt[s].tables);
      auto copy = plan;
      std::vector<float> input(9 * layout.width);
      const auto error = pool(tables.client(), copy, spoilt, input);
      ASSERT_TRUE(error) << "table " << t << ", " << shards << " shards";
      EXPECT_EQ(error, protocol::errc::shape_mismatch);
      const auto expected = "table " + std::to_string(t) + ": server " + std::to_string(s) + " did not answer with [" +
                            std::to_string(answers[s].tables[t].rows) + ", " +
                            std::to_string(answers[s].tables[t].cols) + "] of " +
                            std::string(name_of(answers[s].tables[t].type));
      EXPECT_EQ(protocol::describe(error), expected);
    };
    for (std::size_t t = 0; t < answers[0].tables.size(); ++t) {
      const std::size_t s = shards - 1;
      const msg::tensor& right = answers[s].tables[t];
      const auto with_rows = [&](std::uint64_t count) {
        return [&right, t, count](std::vector<msg::tensor>& spoilt) {
          spoilt[t] = msg::tensor::own(count, right.cols, std::vector<float>(count * right.cols));
        };
      };
      expect_refusal(t, s, with_rows(right.rows + 1));
      if (right.rows > 0) {
        expect_refusal(t, s, with_rows(right.rows - 1));
        expect_refusal(t, s, [&](std::vector<msg::tensor>& spoilt) { spoilt[t] = {}; });
      }
      expect_refusal(t, s, [&](std::vector<msg::tensor>& spoilt) { spoilt[t].type = dtype::i64; });
      expect_refusal(t, s, [&](std::vector<msg::tensor>& spoilt) { spoilt.resize(t); });
    }
  }
}

TEST(SparseClient, ABatchWithoutSamplesAsksForNothing) {
  const spread_tables tables(all_modes(), 2, {});
  auto empty = std::make_shared<model::batch>();
  empty->tables.resize(5);
  const auto plan = tables.client().prepare(7, empty);
  EXPECT_EQ(plan.step, 7U);
  EXPECT_TRUE(plan.lookups.empty());
  EXPECT_EQ(plan.unanswered, 0U);
  EXPECT_EQ(plan.samples, empty);
}

TEST(SparseClient, ALookupSaysWhatItWasAskedTo) {
  source_of_numbers random(5);
  const spread_tables tables(all_modes(), 2, {}, row_dtype::bf16);
  auto plan = tables.client().prepare(3, random_batch(random, all_modes(), 4, false));
  msg::header head;
  head.step = 3;
  head.sequence = 11;
  const msg::lookup asked = tables.client().ask(plan, 1, head, 6);
  EXPECT_EQ(asked.head.step, 3U);
  EXPECT_EQ(asked.head.sequence, 11U);
  EXPECT_EQ(asked.staleness, 6U);
  EXPECT_EQ(asked.type, dtype::bf16);
  EXPECT_TRUE(sparse_client::owes(plan, 1));
  sparse_client::take(plan, 1, std::move(tables.answer(plan)[1]));
  EXPECT_FALSE(sparse_client::owes(plan, 1));
}

TEST(SparseClient, TheServersSharesOfTheNormAddUpExactly) {
  spread_tables tables(all_modes(), 3, {});
  sparse_client& client = tables.client();
  EXPECT_FALSE(client.owes_norm(0));
  client.ask_for_norm();
  const double shares[] = {0x1p53, 1.0, 0x1p-60};
  for (const std::size_t s : {2, 0, 1}) {
    EXPECT_TRUE(client.owes_norm(s));
    model::exact_sum share;
    share.add(shares[s]);
    const auto limbs = share.limbs();
    EXPECT_FALSE(client.take_norm(s, {{}, msg::blob::own(std::vector<std::int64_t>(limbs.begin(), limbs.end()))}));
    EXPECT_FALSE(client.owes_norm(s));
  }
  EXPECT_EQ(client.squared_norm_of_tables(), 0x1p53 + 2) << "doubles added one by one would give 2^53";
  client.ask_for_norm();
  EXPECT_EQ(client.take_norm(0, {{}, msg::blob::own(std::vector<std::int64_t>{1, 2})}), protocol::errc::shape_mismatch);
}

TEST(SparseClientDeathTest, AnAnswerThatWasNotAskedForIsABug) {
  source_of_numbers random(6);
  const spread_tables tables(all_modes(), 2, {});
  auto plan = tables.client().prepare(1, random_batch(random, all_modes(), 4, false));
  EXPECT_DEATH(sparse_client::take(plan, 0, {}), "assertion failed: c.unanswered > 0");
  tables.client().ask(plan, 0, {}, 0);
  network_input input;
  input.resize(kernels::host_stream(), 4, model::input_layout(all_modes()).width);
  EXPECT_DEATH((void)tables.client().pool(plan, kernels::host_stream(), input), "assertion failed: c.unanswered == 0");
}

}  // namespace
}  // namespace troupe::actors::sparse_client_test
