// The exchange with the parameter servers, without actors: lookups are answered from shards of the tables, and the
// gradients applied to them. However many shards there are, not a bit may change.

#include "actors/table_exchange.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "actors/views.hpp"
#include "actors/weights.hpp"
#include "actors/wire.hpp"
#include "model/embedding_bag.hpp"
#include "protocol/errors.hpp"
#include "tests/actors/rounding.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::table_exchange_test {
namespace {

using kernels::optimizer_kind;
using kernels::pooling;
using kernels::row_dtype;
using kernels::test::make_bags;
using kernels::test::same_bits;
using kernels::test::source_of_numbers;

constexpr std::size_t ranks = 2;
constexpr float untouched = -77;

/// Every way of pooling; the second table has fewer rows than there may be shards.
data_spec all_modes() {
  data_spec spec;
  spec.tables = {{23, 5, pooling::sum, false},
                 {3, 8, pooling::mean, false},
                 {23, 17, pooling::max, false},
                 {40, 4, pooling::sum, true},
                 {11, 33, pooling::mean, false}};
  spec.dense_features = 3;
  return spec;
}

/// Bags with repeated indices, empty ones, and one table without any index. Of each table's rows, the first `rows_used`
/// occur.
std::shared_ptr<const batch> random_batch(source_of_numbers& random, const data_spec& spec, std::size_t size,
                                          bool last_is_empty, std::int64_t rows_used = 1000) {
  auto samples = std::make_shared<batch>();
  samples->size = size;
  samples->dense.assign(size * spec.dense_features, untouched);
  for (const auto& table : spec.tables) {
    auto made = make_bags(random, size, static_cast<std::size_t>(std::min(table.rows, rows_used)), table.weighted);
    samples->tables.push_back({std::move(made.indices), std::move(made.offsets), std::move(made.weights)});
  }
  if (last_is_empty) samples->tables.back() = {{}, std::vector<std::int64_t>(size, 0), {}};
  EXPECT_EQ(check_batch({spec.tables, 0, 1}, {size, samples->tables, {}, {}, std::vector<float>(size)}), std::nullopt);
  return samples;
}

/// All tables, spread over `shards` servers that are not there: what they would do is done here.
class spread_tables {
 public:
  spread_tables(const hybrid_model& model, std::uint32_t shards, const optimizer_spec& optimizer,
                row_dtype wire = row_dtype::f32, bool remote = false)
      : wire_(wire) {
    std::vector<std::vector<module_ref>> refs;
    for (std::size_t t = 0; t < model.spec().tables.size(); ++t) {
      const table_spec& spec = model.spec().tables[t];
      tables_.emplace_back();
      refs.emplace_back();
      for (std::uint32_t s = 0; s < shards; ++s) {
        tables_[t].emplace_back(embedding_bag_options{spec.rows, spec.dim, spec.mode, 1, t, s, shards, optimizer});
        refs[t].push_back({{}, {}, module_of(t, s), s, shards, s});
      }
    }
    exchange_ = table_exchange(model, std::move(refs), wire, remote);
  }

  const table_exchange& exchange() const { return exchange_; }
  embedding_bag& table(std::size_t t, std::size_t shard) const { return tables_[t][shard]; }

  /// The answers, by server.
  std::vector<rows> answer(const table_exchange::plan& plan) const {
    EXPECT_EQ(plan.lookups.size(), exchange_.servers());
    std::vector<rows> answers;
    for (std::size_t s = 0; s < plan.lookups.size(); ++s) {
      EXPECT_EQ(plan.lookups[s].size(), tables_.size());
      answers.emplace_back();
      for (std::size_t t = 0; t < plan.lookups[s].size(); ++t) {
        const bag_lookup& wanted = plan.lookups[s][t];
        EXPECT_EQ(wanted.module, module_of(t, s));
        embedding_bag& table = tables_[t][s];
        const auto view = view_of(wanted);
        for (const std::int64_t row : view.indices) EXPECT_TRUE(row >= 0 && row < table.rows()) << row;
        const std::size_t count = view.offsets.empty() ? view.indices.size() : view.size();
        std::vector<float> out(count * table.dim());
        table.forward(view, out.data());
        answers.back().tables.push_back(encode_rows(out.data(), count, table.dim(), wire_));
      }
    }
    return answers;
  }

  /// One step with the gradients of all ranks, each by server.
  void apply(std::uint64_t step, const std::vector<std::vector<std::vector<bag_gradient>>>& of_ranks) {
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      for (std::size_t s = 0; s < tables_[t].size(); ++s) {
        std::vector<embedding_bag::contribution> contributions;
        std::vector<std::vector<float>> decoded;
        for (const auto& by_server : of_ranks) {
          const bag_gradient& given = by_server.at(s).at(t);
          EXPECT_EQ(given.module, module_of(t, s));
          EXPECT_TRUE(given.grad.consistent());
          const auto view = view_of(given);
          EXPECT_EQ(given.grad.rows, view.offsets.empty() ? view.indices.size() : view.size());
          EXPECT_EQ(given.grad.cols, tables_[t][s].dim());
          EXPECT_EQ(given.grad.type, dtype_of(wire_));
          decode_rows(given.grad, decoded.emplace_back(given.grad.rows * given.grad.cols).data());
          contributions.push_back({view, {decoded.back().data(), given.grad.cols}});
        }
        EXPECT_EQ(tables_[t][s].step(step, contributions, 1.0F / ranks), std::nullopt);
      }
    }
  }

  /// The weights of table `t`, in the order of the whole table's rows.
  std::vector<float> weights(std::size_t t) const {
    const std::size_t dim = tables_[t].front().dim();
    std::vector<float> whole(static_cast<std::size_t>(tables_[t].front().options().rows) * dim);
    for (const embedding_bag& shard : tables_[t]) {
      for (std::int64_t row = 0; row < shard.rows(); ++row)
        std::copy_n(shard.weights().data() + static_cast<std::size_t>(row) * dim, dim,
                    whole.data() + static_cast<std::size_t>(shard.whole_row(row)) * dim);
    }
    return whole;
  }

 private:
  static std::uint64_t module_of(std::size_t table, std::size_t shard) { return 100 * table + shard; }

  row_dtype wire_;
  mutable std::vector<std::vector<embedding_bag>> tables_;  // a lookup may use their staging
  table_exchange exchange_;
};

struct trained_bits {
  std::vector<std::vector<float>> inputs;
  std::vector<std::vector<float>> tables;
  /// In how many of the ranks' steps each table was pooled by the trainer.
  std::vector<std::size_t> pooled_here;
};

/// What the exchange fills of `input` on the processor.
caf::error pool(const table_exchange& exchange, table_exchange::plan& plan, std::span<const rows> answers,
                std::vector<float>& input) {
  network_input there;
  there.resize(kernels::host_stream(), plan.samples->size, input.size() / plan.samples->size);
  std::ranges::copy(input, there.data());
  auto error = exchange.pool(plan, answers, kernels::host_stream(), there);
  std::copy_n(there.data(), input.size(), input.begin());
  return error;
}

std::vector<std::vector<bag_gradient>> gradients_of(const table_exchange& exchange, const table_exchange::plan& plan,
                                                    const std::vector<float>& grad_input) {
  kernels::mirrored_array<float> there;
  there.resize(kernels::host_stream(), grad_input.size());
  std::ranges::copy(grad_input, there.host());
  return exchange.gradients(plan, there, nullptr);
}

/// Four steps of two ranks with random gradients of the input; the ranks take turns in using few rows only.
trained_bits train_some(std::uint32_t shards, const optimizer_spec& optimizer, row_dtype wire = row_dtype::f32,
                        bool remote = false) {
  const hybrid_model model(all_modes(), {}, loss_kind::mse);
  spread_tables tables(model, shards, optimizer, wire, remote);
  source_of_numbers random(1);
  trained_bits bits;
  bits.pooled_here.resize(model.spec().tables.size());
  for (std::uint64_t step = 1; step <= 4; ++step) {
    std::vector<std::vector<std::vector<bag_gradient>>> gradients;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::size_t size = rank == 0 ? 9 : 1 + step;
      const std::int64_t rows_used = (step + rank) % 2 == 0 ? 2 : 1000;
      auto plan = tables.exchange().prepare(random_batch(random, model.spec(), size, step == 2, rows_used));
      for (std::size_t t = 0; t < plan.tables.size(); ++t) bits.pooled_here[t] += plan.tables[t].is_pooled_here ? 1 : 0;
      std::vector<float> input(size * model.in_features(), untouched);
      EXPECT_FALSE(pool(tables.exchange(), plan, tables.answer(plan), input));
      const auto grad = random.numbers(input.size());
      gradients.push_back(gradients_of(tables.exchange(), plan, grad));
      EXPECT_FALSE(tables.exchange().check_gradients(plan, gradients.back()));
      EXPECT_EQ(gradients.back().size(), shards);
      bits.inputs.push_back(std::move(input));
    }
    tables.apply(step, gradients);
  }
  for (std::size_t t = 0; t < model.spec().tables.size(); ++t) bits.tables.push_back(tables.weights(t));
  return bits;
}

void expect_same(const trained_bits& several, const trained_bits& one, std::uint32_t shards) {
  ASSERT_EQ(several.inputs.size(), one.inputs.size());
  for (std::size_t i = 0; i < one.inputs.size(); ++i)
    EXPECT_TRUE(same_bits(several.inputs[i], one.inputs[i])) << "input " << i << ", " << shards << " shards";
  for (std::size_t t = 0; t < one.tables.size(); ++t)
    EXPECT_TRUE(same_bits(several.tables[t], one.tables[t])) << "table " << t << ", " << shards << " shards";
}

TEST(table_exchange, no_bit_depends_on_the_number_of_shards) {
  for (const auto kind : {optimizer_kind::sgd, optimizer_kind::adagrad, optimizer_kind::adam}) {
    optimizer_spec optimizer;
    optimizer.kind = kind;
    optimizer.lr = 0.1;
    for (const row_dtype wire : {row_dtype::f32, row_dtype::f16, row_dtype::bf16}) {
      SCOPED_TRACE(name_of(dtype_of(wire)));
      const auto one = train_some(1, optimizer, wire);
      for (const std::uint32_t shards : {2U, 3U, 5U}) expect_same(train_some(shards, optimizer, wire), one, shards);
    }
  }
}

// Two ranks of four steps: sums, means and weighted sums, empty bags, tables that a batch does not use. In a step, one
// rank may send the gradient of its rows and the other one that of its pooled rows.
TEST(table_exchange, no_bit_depends_on_where_a_whole_table_is_pooled) {
  for (const auto kind : {optimizer_kind::sgd, optimizer_kind::adagrad, optimizer_kind::adam}) {
    optimizer_spec optimizer;
    optimizer.kind = kind;
    optimizer.lr = 0.1;
    const auto there = train_some(1, optimizer);
    const auto here = train_some(1, optimizer, row_dtype::f32, true);
    expect_same(here, there, 1);
    expect_same(train_some(3, optimizer, row_dtype::f32, true), there, 3);
    EXPECT_EQ(there.pooled_here, (std::vector<std::size_t>{0, 0, 8, 0, 0})) << "in one process: the maximum only";
    for (const std::size_t t : {0U, 1U, 3U, 4U}) {
      EXPECT_GT(here.pooled_here[t], 0U) << "table " << t;
      EXPECT_LT(here.pooled_here[t], 8U) << "table " << t;
    }
  }
}

TEST(table_exchange, a_whole_table_is_pooled_here_where_that_sends_less) {
  data_spec spec;
  spec.tables = {{50, 4, pooling::sum, false}, {50, 4, pooling::mean, false}, {50, 4, pooling::sum, true}};
  const hybrid_model model(spec, {}, loss_kind::mse);
  const spread_tables remote(model, 1, {}, row_dtype::f32, true);
  const spread_tables local(model, 1, {});
  auto samples = std::make_shared<batch>();
  samples->size = 3;
  // Three bags of: two distinct rows; three; none.
  samples->tables = {{{7, 9, 7, 9, 9}, {0, 2, 4}, {}}, {{7, 9, 7, 8, 9}, {0, 2, 4}, {}}, {{}, {0, 0, 0}, {}}};
  const auto plan = remote.exchange().prepare(samples);
  const auto asked = [](const bag_lookup& wanted) {
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
  for (const auto& table : local.exchange().prepare(samples).tables) EXPECT_FALSE(table.is_pooled_here);

  // What has travelled: two rows and their gradients, and three pooled rows and theirs.
  auto answered = plan;
  const auto answers = remote.answer(plan);
  EXPECT_EQ(answers[0].tables[0].rows, 2u);
  EXPECT_EQ(answers[0].tables[1].rows, 3u);
  EXPECT_EQ(answers[0].tables[2].rows, 0u);
  std::vector<float> input(3 * model.in_features());
  ASSERT_FALSE(pool(remote.exchange(), answered, answers, input));
  const auto gradients = gradients_of(remote.exchange(), answered, input);
  EXPECT_EQ(gradients[0][0].grad.rows, 2u);
  EXPECT_EQ(gradients[0][1].grad.rows, 3u);
  EXPECT_EQ(gradients[0][2].grad.rows, 0u);
}

TEST(table_exchange, input_is_each_table_pooled_in_its_columns) {
  const hybrid_model model(all_modes(), {}, loss_kind::mse);
  const spread_tables whole(model, 1, {});
  source_of_numbers random(2);
  for (const std::uint32_t shards : {1U, 2U, 3U, 5U}) {
    const spread_tables tables(model, shards, {});
    const auto samples = random_batch(random, model.spec(), 12, false);
    auto plan = tables.exchange().prepare(samples);
    std::vector<float> input(12 * model.in_features(), untouched);
    ASSERT_FALSE(pool(tables.exchange(), plan, tables.answer(plan), input));
    auto expected = std::vector<float>(input.size(), untouched);
    for (std::size_t t = 0; t < model.spec().tables.size(); ++t) {
      const std::size_t dim = model.spec().tables[t].dim;
      std::vector<float> pooled(12 * dim);
      whole.table(t, 0).forward(samples->tables[t], pooled.data());
      for (std::size_t row = 0; row < 12; ++row)
        std::copy_n(pooled.data() + row * dim, dim, expected.data() + row * model.in_features() + model.column_of(t));
    }
    EXPECT_TRUE(same_bits(input, expected)) << shards;
  }
}

TEST(table_exchange, rows_pooled_here_travel_once_each) {
  const hybrid_model model(all_modes(), {}, loss_kind::mse);
  source_of_numbers random(3);
  for (const auto& [shards, wire] :
       {std::pair{1U, row_dtype::f32}, {2U, row_dtype::f32}, {5U, row_dtype::f32}, {1U, row_dtype::f16}}) {
    const spread_tables tables(model, shards, {}, wire);
    const auto samples = random_batch(random, model.spec(), 30, false);
    const auto plan = tables.exchange().prepare(samples);
    for (std::size_t t = 0; t < model.spec().tables.size(); ++t) {
      const auto& indices = samples->tables[t].indices;
      if (shards == 1 && wire == row_dtype::f32 && model.spec().tables[t].mode != pooling::max) {
        // Pooled there: the batch's own memory travels.
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

// Two samples: rows 1, 3 and 3 again, summed; then row 1 alone. What the rows and the sums of their gradients are in 16
// bits is computed apart from the kernels.
TEST(table_exchange, sixteen_bits_round_single_rows_and_each_rows_whole_gradient) {
  data_spec spec;
  spec.tables = {{5, 4, pooling::sum, false}};
  spec.dense_features = 1;
  const hybrid_model model(spec, {}, loss_kind::mse);
  auto samples = std::make_shared<batch>();
  samples->size = 2;
  samples->dense = {untouched, untouched};
  samples->tables = {{{1, 3, 3, 1}, {0, 3}, {}}};
  source_of_numbers random(5);
  for (const row_dtype wire : {row_dtype::f16, row_dtype::bf16}) {
    for (const std::uint32_t shards : {1U, 2U, 3U}) {
      const spread_tables tables(model, shards, {}, wire);
      const auto weights = tables.weights(0);
      auto plan = tables.exchange().prepare(samples);
      std::vector<float> input(2 * model.in_features(), untouched);
      ASSERT_FALSE(pool(tables.exchange(), plan, tables.answer(plan), input));
      const std::size_t column = model.column_of(0);
      const auto grad = random.numbers(input.size());
      const auto gradients = gradients_of(tables.exchange(), plan, grad);
      for (std::size_t d = 0; d < 4; ++d) {
        const float row_1 = rounded(weights[1 * 4 + d], wire);
        const float row_3 = rounded(weights[3 * 4 + d], wire);
        EXPECT_EQ(input[column + d], row_1 + row_3 + row_3);
        EXPECT_EQ(input[model.in_features() + column + d], row_1);
        const float first = grad[column + d];
        const float second = grad[model.in_features() + column + d];
        const float expected[] = {rounded(first + second, wire), rounded(first + first, wire)};
        std::size_t found = 0;
        for (std::uint32_t s = 0; s < shards; ++s) {
          const bag_gradient& sent = gradients[s][0];
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

TEST(table_exchange, what_sixteen_bits_do_not_hold_is_named_with_what_to_try) {
  data_spec spec;
  spec.tables = {{5, 4, pooling::mean, false}, {7, 2, pooling::sum, false}};
  const hybrid_model model(spec, {}, loss_kind::mse);
  auto samples = std::make_shared<batch>();
  samples->size = 2;
  samples->tables = {{{1, 3}, {0, 1}, {}}, {{2, 6}, {0, 1}, {}}};
  for (const std::uint32_t shards : {1U, 2U, 3U}) {
    const spread_tables narrow(model, shards, {}, row_dtype::f16);
    const spread_tables wide(model, shards, {}, row_dtype::bf16);
    std::vector<float> input(2 * model.in_features());
    std::vector<float> grad(input.size(), 1.0F);
    grad[model.in_features() + model.column_of(1) + 1] = -66000;
    auto plan = narrow.exchange().prepare(samples);
    auto answers = narrow.answer(plan);
    ASSERT_FALSE(pool(narrow.exchange(), plan, answers, input));
    EXPECT_FALSE(narrow.exchange().check_rows(plan, answers));
    const auto error = narrow.exchange().check_gradients(plan, gradients_of(narrow.exchange(), plan, grad));
    EXPECT_EQ(error, errc::not_finite);
    EXPECT_EQ(describe(error),
              "table 1: the gradient of row 6 is NaN or Inf as float16; try --wire-dtype bf16 or f32 (f16 ends at "
              "65504), or a smaller --dense-lr or --sparse-lr");
    // As if the rows of the server that has row 3 had grown.
    const std::vector<float> beyond(answers[3 % shards].tables[0].rows * 4, 70000.0F);
    auto& of_server = answers[3 % shards].tables[0];
    of_server = encode_rows(beyond.data(), of_server.rows, 4, row_dtype::f16);
    const auto in_rows = narrow.exchange().check_rows(plan, answers);
    EXPECT_EQ(in_rows, errc::not_finite);
    EXPECT_EQ(describe(in_rows).rfind("table 0: row ", 0), 0u) << describe(in_rows);

    plan = wide.exchange().prepare(samples);
    ASSERT_FALSE(pool(wide.exchange(), plan, wide.answer(plan), input));
    EXPECT_FALSE(wide.exchange().check_gradients(plan, gradients_of(wide.exchange(), plan, grad)));
  }
}

// Rows 2 and 4 are equal: the first in the bag takes the gradient, and a third one beats them in one column.
TEST(table_exchange, gradient_of_a_maximum_goes_to_the_row_that_had_it) {
  data_spec spec;
  spec.tables = {{6, 2, pooling::max, false}};
  spec.dense_features = 1;
  const hybrid_model model(spec, {}, loss_kind::mse);
  auto samples = std::make_shared<batch>();
  samples->size = 3;
  samples->dense.assign(3, 0);
  samples->tables = {{{4, 2, 3, 2}, {0, 3, 3}, {}}};
  for (const std::uint32_t shards : {1U, 2U, 3U}) {
    const spread_tables tables(model, shards, {});
    auto plan = tables.exchange().prepare(samples);
    const std::vector<float> table = {0, 0, 0, 0, 5, 1, 4, 9, 5, 1, 0, 0};
    std::vector<rows> answers(shards);
    for (std::size_t s = 0; s < shards; ++s) {
      std::vector<float> numbers;
      for (const std::int64_t row : plan.lookups[s][0].indices.as<std::int64_t>()) {
        const auto whole = static_cast<std::size_t>(tables.table(0, s).whole_row(row));
        numbers.insert(numbers.end(), {table[2 * whole], table[2 * whole + 1]});
      }
      answers[s].tables.push_back(tensor::own(numbers.size() / 2, 2, std::move(numbers)));
    }
    std::vector<float> input(9);
    ASSERT_FALSE(pool(tables.exchange(), plan, answers, input));
    EXPECT_EQ(input, (std::vector<float>{0, 5, 9, 0, 0, 0, 0, 5, 1}));
    const std::vector<float> grad = {99, 1, 2, 99, 3, 4, 99, 5, 6};
    const auto gradients = gradients_of(tables.exchange(), plan, grad);
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

TEST(table_exchange, answers_of_another_shape_are_refused) {
  const hybrid_model model(all_modes(), {}, loss_kind::mse);
  source_of_numbers random(4);
  const auto samples = random_batch(random, model.spec(), 9, false);
  for (const auto& [shards, wire] :
       {std::pair{1U, row_dtype::f32}, {2U, row_dtype::f32}, {3U, row_dtype::f32}, {2U, row_dtype::bf16}}) {
    const spread_tables tables(model, shards, {}, wire);
    const auto plan = tables.exchange().prepare(samples);
    const auto answers = tables.answer(plan);
    const auto expect_refusal = [&](std::size_t t, std::size_t s, const auto& spoil) {
      auto spoilt = answers;
      spoil(spoilt[s].tables);
      auto copy = plan;
      std::vector<float> input(9 * model.in_features());
      const auto error = pool(tables.exchange(), copy, spoilt, input);
      ASSERT_TRUE(error) << "table " << t << ", " << shards << " shards";
      EXPECT_EQ(error, errc::shape_mismatch);
      const auto expected = "table " + std::to_string(t) + ": server " + std::to_string(s) + " did not answer with [" +
                            std::to_string(answers[s].tables[t].rows) + ", " +
                            std::to_string(answers[s].tables[t].cols) + "] of " + name_of(answers[s].tables[t].type);
      EXPECT_EQ(describe(error), expected);
    };
    for (std::size_t t = 0; t < answers[0].tables.size(); ++t) {
      const std::size_t s = shards - 1;
      const tensor& right = answers[s].tables[t];
      const auto with_rows = [&](std::uint64_t count) {
        return [&right, t, count](std::vector<tensor>& spoilt) {
          spoilt[t] = tensor::own(count, right.cols, std::vector<float>(count * right.cols));
        };
      };
      expect_refusal(t, s, with_rows(right.rows + 1));
      if (right.rows > 0) {
        expect_refusal(t, s, with_rows(right.rows - 1));
        expect_refusal(t, s, [&](std::vector<tensor>& spoilt) { spoilt[t] = {}; });
      }
      expect_refusal(t, s, [&](std::vector<tensor>& spoilt) { spoilt[t].type = dtype::i64; });
      expect_refusal(t, s, [&](std::vector<tensor>& spoilt) { spoilt.resize(t); });
    }
  }
}

}  // namespace
}  // namespace troupe::table_exchange_test
