// The remote module `EmbeddingBag` alone: the effect of its arguments, and its rows and state as they travel.

#include "actors/server/remote_module.hpp"
#include "base/digest.hpp"
#include "base/text.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "actors/common/device_tensor.hpp"
#include "actors/server/embedding_bag_arguments.hpp"
#include "actors/server/row_codec.hpp"
#include "model/embedding_bag.hpp"
#include "protocol/errors.hpp"
#include "tests/actors/rounding.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::actors::remote_embedding_bag_test {
namespace {

using kernels::row_dtype;
using kernels::test::same_bits;

constexpr std::uint64_t rows_here = 6;
constexpr std::size_t dim = 3;

/// A table of 6 rows of 3 numbers, SGD with lr 1; `more` overrides these arguments.
msg::instantiate order(const msg::arguments& more = {}) {
  msg::arguments args = {{"num_embeddings", "6"}, {"embedding_dim", "3"}, {"mode", "sum"}, {"seed", "1"},
                         {"table", "2"},          {"optimizer", "sgd"},   {"lr", "1"},     {"reduce", "sum"}};
  for (const auto& [name, value] : more) {
    std::erase_if(args, [&n = name](const auto& known) { return known.first == n; });
    args.emplace_back(name, value);
  }
  return {{}, {"EmbeddingBag", args}, 0, 1, 1};
}

std::unique_ptr<remote_module> made(const msg::arguments& more = {}) {
  auto module = make_remote_embedding_bag(order(more), kernels::host_device());
  EXPECT_TRUE(module) << (module ? "" : protocol::describe(module.error()));
  return module ? std::move(*module) : nullptr;
}

std::string refusal(const msg::arguments& more) {
  auto module = make_remote_embedding_bag(order(more), kernels::host_device());
  EXPECT_FALSE(module);
  return module ? "" : protocol::describe(module.error());
}

msg::tensor matrix(std::vector<float> numbers) {
  return msg::tensor::own(numbers.size() / dim, dim, std::move(numbers));
}

/// Returns whole rows, by number.
std::vector<float> look_up(remote_module& module, std::vector<std::int64_t> indices) {
  const auto begun = module.lookup({0, msg::blob::own(std::move(indices)), {}, {}}, row_dtype::f32);
  EXPECT_TRUE(begun);
  const msg::tensor found = (*begun)();
  const auto numbers = found.as<float>();
  return {numbers.begin(), numbers.end()};
}

/// Applies one step whose gradient is `value` in every column of `row`.
caf::error step(remote_module& module, std::uint64_t number, std::int64_t row, float value) {
  const msg::bag_gradient grad{
      0, msg::blob::own(std::vector<std::int64_t>{row}), {}, {}, matrix(std::vector<float>(dim, value))};
  EXPECT_FALSE(module.check(grad));
  const msg::bag_gradient* const grads[] = {&grad};
  if (auto error = module.collect(grads, {1, 1})) return error;
  module.apply(number, 1);
  return module.finish();
}

caf::error load_weights(remote_module& module, float value) {
  return module.load_state_dict({{"weight", matrix(std::vector<float>(rows_here * dim, value))}});
}

// warmup:2 and a cosine of two steps: factors 0.5, 1, 1, 0.5, 0.
TEST(RemoteEmbeddingBag, StepsByTheSchedule) {
  auto table = made({{"lr_schedule", "warmup:2+cosine:2"}});
  ASSERT_FALSE(load_weights(*table, 0));
  std::vector<float> seen;
  for (std::uint64_t t = 1; t <= 5; ++t) {
    ASSERT_FALSE(step(*table, t, 4, 1));
    seen.push_back(look_up(*table, {4})[0]);
  }
  EXPECT_EQ(seen, (std::vector<float>{-0.5F, -1.5F, -2.5F, -3, -3}));
}

TEST(RemoteEmbeddingBag, TakesAJobsOptimizerScheduleAndTypeOfRows) {
  auto parsed = model::parse_job({{"data", "synthetic"},
                                  {"sparse-optimizer", "lazy-sgd:momentum=0.5"},
                                  {"sparse-lr", "2"},
                                  {"lr-schedule", "step:1,0.5"},
                                  {"row-dtype", "bf16"}});
  ASSERT_TRUE(parsed);
  msg::instantiate spec = order();
  spec.spec = embedding_bag_spec(*parsed, {static_cast<std::int64_t>(rows_here), dim, kernels::pooling::sum, false}, 0);
  auto module = make_remote_embedding_bag(spec, kernels::host_device());
  ASSERT_TRUE(module) << protocol::describe(module.error());
  ASSERT_FALSE(load_weights(**module, 0));
  EXPECT_EQ((*module)->parameters()[0].type, dtype::bf16);
  // By hand: v = 1, w = -2 * 1; v = 0.5 + 1, w = -2 - 1 * 1.5; the other rows do not change.
  ASSERT_FALSE(step(**module, 1, 4, 1));
  EXPECT_EQ(look_up(**module, {4, 3}), (std::vector<float>{-2, -2, -2, 0, 0, 0}));
  ASSERT_FALSE(step(**module, 2, 4, 1));
  EXPECT_EQ(look_up(**module, {4, 3}), (std::vector<float>{-3.5F, -3.5F, -3.5F, 0, 0, 0}));
}

TEST(RemoteEmbeddingBag, RowsAndStateComeAndGoAsTheyAreStored) {
  for (const auto& [name, type] : {std::pair{"f32", dtype::f32}, {"f16", dtype::f16}, {"bf16", dtype::bf16}}) {
    for (const auto& [optimizer, columns] :
         {std::pair{"adagrad", dim}, {"rowwise-adagrad", std::size_t{1}}, {"lazy-adam", dim}}) {
      SCOPED_TRACE(std::string(name) + " " + optimizer);
      auto one = made({{"dtype", name}, {"optimizer", optimizer}, {"seed", "1"}});
      auto other = made({{"dtype", name}, {"optimizer", optimizer}, {"seed", "2"}});
      ASSERT_FALSE(step(*one, 1, 3, 0.5F));
      const auto parameters = one->parameters();
      EXPECT_EQ(parameters[0].type, type);
      const auto entries = one->state_dict(state_parts::all);
      ASSERT_EQ(entries.size(), optimizer == std::string("lazy-adam") ? 3U : 2U);
      EXPECT_EQ(entries[0].first, "weight");
      EXPECT_EQ(entries[0].second.type, type);
      EXPECT_EQ(entries[0].second.bytes.size(), rows_here * dim * size_of(type));
      EXPECT_EQ(entries[1].first, "state.0");
      EXPECT_EQ(entries[1].second.type, dtype::f32);
      EXPECT_EQ(entries[1].second.rows, rows_here);
      EXPECT_EQ(entries[1].second.cols, columns);
      EXPECT_TRUE(entries[1].second.consistent());
      ASSERT_FALSE(other->load_state_dict(entries));
      for (std::uint64_t t = 2; t <= 4; ++t) {
        ASSERT_FALSE(step(*one, t, 3, 0.25F));
        ASSERT_FALSE(step(*other, t, 3, 0.25F));
      }
      EXPECT_TRUE(one->row_digests(0, rows_here)->bytes == other->row_digests(0, rows_here)->bytes);
      const auto after = one->state_dict(state_parts::all);
      const auto of_other = other->state_dict(state_parts::all);
      for (std::size_t i = 0; i < after.size(); ++i) EXPECT_TRUE(after[i].second.bytes == of_other[i].second.bytes);
    }
  }
}

TEST(RemoteEmbeddingBag, FloatsAreRoundedIntoRowsOf16Bits) {
  auto table = made({{"dtype", "bf16"}});
  ASSERT_FALSE(load_weights(*table, 1.0F + 0x1p-9F));
  EXPECT_EQ(look_up(*table, {0}), std::vector<float>(dim, 1.0F));
}

TEST(RemoteEmbeddingBag, EntriesOfAnotherShapeOrTypeAreRefused) {
  auto table = made({{"optimizer", "rowwise-adagrad"}});
  const auto refused = [&](const char* name, msg::tensor numbers) {
    return protocol::describe(table->load_state_dict({{name, std::move(numbers)}}));
  };
  EXPECT_EQ(refused("weight", matrix(std::vector<float>(5 * dim))),
            "table 2: entry 'weight' is [5, 3] of float32, expected [6, 3] of float32");
  EXPECT_EQ(refused("weight", msg::tensor::own(dim, 6, std::vector<float>(6 * dim))),
            "table 2: entry 'weight' is [3, 6] of float32, expected [6, 3] of float32");
  EXPECT_EQ(refused("state.0", matrix(std::vector<float>(6 * dim))),
            "table 2: entry 'state.0' is [6, 3] of float32, expected [6, 1] of float32");
  EXPECT_EQ(refused("weight", msg::tensor::own(6, dim, std::vector<double>(6 * dim))),
            "table 2: entry 'weight' is [6, 3] of float64, expected [6, 3] of float32");
  EXPECT_EQ(refused("weight", msg::tensor(dtype::f16, 6, dim, msg::blob::own(std::vector<std::uint16_t>(6 * dim)))),
            "table 2: entry 'weight' is [6, 3] of float16, expected [6, 3] of float32");
  EXPECT_EQ(refused("weight", msg::tensor(dtype::f32, 6, dim, {})),
            "table 2: entry 'weight' is [6, 3] of float32, expected [6, 3] of float32");
  EXPECT_EQ(
      refused("state.1", {}),
      "table 2 has no entry 'state.1': its optimizer, rowwise-adagrad, has no such state; make the optimizer whose "
      "state it is first, or load the weight alone");
  EXPECT_EQ(refused("rows", {}), "table 2 has no entry 'rows'");
  EXPECT_EQ(refused("state.0", msg::tensor::own(6, 1, std::vector<float>(6))), "table 2: entry 'weight' is missing");
}

// The digest covers the stored bits: XXH3 of 2 bytes per number.
TEST(RemoteEmbeddingBag, DigestsAreThoseOfTheStoredBits) {
  auto table = made({{"dtype", "f16"}});
  const auto weights = table->state_dict(state_parts::all)[0].second;
  const auto digests = table->row_digests(0, rows_here);
  ASSERT_TRUE(digests);
  for (std::size_t row = 0; row < rows_here; ++row)
    EXPECT_EQ(digests->as<std::uint64_t>()[row], digest_of(weights.bytes.data() + row * dim * 2, dim * 2));
  const auto part = table->row_digests(2, 3);
  ASSERT_TRUE(part);
  ASSERT_EQ(part->rows, 3u);
  for (std::size_t row = 0; row < 3; ++row)
    EXPECT_EQ(part->as<std::uint64_t>()[row], digests->as<std::uint64_t>()[2 + row]);
}

TEST(RemoteEmbeddingBag, AShardOfColumnsAnswersWithItsRowsInPlaceOfTheirDigests) {
  const auto whole = made({{"dtype", "f16"}});
  auto order_of_columns = order({{"dtype", "f16"}, {"split", "columns"}});
  order_of_columns.shard = 0;
  order_of_columns.shards = 2;
  const auto columns = make_remote_embedding_bag(order_of_columns, kernels::host_device());
  ASSERT_TRUE(columns) << protocol::describe(columns.error());
  EXPECT_EQ((*columns)->parameters()[0].cols, 2U);
  const auto found = (*columns)->row_digests(2, 3);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->type, dtype::f16);
  EXPECT_EQ(found->rows, 3U);
  EXPECT_EQ(found->cols, 2U);
  const msg::tensor weights = whole->state_dict(state_parts::all)[0].second;
  const auto all = weights.bytes.as<std::uint16_t>();
  std::vector<std::uint16_t> expected;
  for (std::size_t row = 2; row < 5; ++row) expected.insert(expected.end(), {all[row * dim], all[row * dim + 1]});
  EXPECT_TRUE(std::ranges::equal(found->bytes.as<std::uint16_t>(), expected));
  EXPECT_EQ((*columns)->row_digests(0, 0)->rows, 0U);
}

TEST(RemoteEmbeddingBag, ARowBeyondF16IsNoticedAndWhatToTryIsSaid) {
  auto narrow = made({{"dtype", "f16"}});
  ASSERT_FALSE(load_weights(*narrow, -65000));
  ASSERT_FALSE(step(*narrow, 1, 5, 1000));
  EXPECT_EQ(look_up(*narrow, {5})[0], -std::numeric_limits<float>::infinity());
  auto digests = narrow->row_digests(0, rows_here);
  ASSERT_FALSE(digests);
  EXPECT_EQ(digests.error(), protocol::errc::not_finite);
  EXPECT_EQ(protocol::describe(digests.error()),
            "table 2: row 5 is NaN or Inf; try rows in bf16 or f32 (--row-dtype), as f16 ends at 65504, a smaller "
            "learning rate (--sparse-lr) or a larger eps");
  EXPECT_TRUE(narrow->row_digests(0, 5)) << "it is not in this piece";
  EXPECT_EQ(protocol::describe(narrow->row_digests(3, 3).error()), protocol::describe(digests.error()));
  auto wide = made({{"dtype", "bf16"}});
  ASSERT_FALSE(load_weights(*wide, -65000));
  ASSERT_FALSE(step(*wide, 1, 5, 1000));
  EXPECT_TRUE(wide->row_digests(0, rows_here));
  ASSERT_FALSE(load_weights(*wide, std::numeric_limits<float>::infinity()));
  EXPECT_EQ(protocol::describe(wide->row_digests(0, rows_here).error()),
            "table 2: row 0 is NaN or Inf; try a smaller learning rate (--sparse-lr) or a larger eps");
}

TEST(RemoteEmbeddingBag, RowsAreSentAsTheTypeAskedForAndStayAsTheyAreStored) {
  for (const auto& [name, stored] : {std::pair{"f32", row_dtype::f32}, {"f16", row_dtype::f16}}) {
    auto table = made({{"dtype", name}});
    const auto before = table->state_dict(state_parts::all)[0].second;
    const auto rows = look_up(*table, {4, 0, 4});
    for (const row_dtype type : {row_dtype::f16, row_dtype::bf16}) {
      const auto begun = table->lookup({0, msg::blob::own(std::vector<std::int64_t>{4, 0, 4}), {}, {}}, type);
      ASSERT_TRUE(begun);
      const msg::tensor sent = (*begun)();
      EXPECT_EQ(sent.type, type);
      EXPECT_EQ(sent.bytes.size(), 3 * dim * 2);
      std::vector<float> numbers(3 * dim);
      decode_rows(sent, numbers.data());
      EXPECT_TRUE(kernels::test::same_bits(numbers, rounded(rows, type)));
      if (type == stored) {
        EXPECT_TRUE(kernels::test::same_bits(numbers, rows)) << "they travel exactly";
      }
    }
    EXPECT_TRUE(table->state_dict(state_parts::all)[0].second.bytes == before.bytes);
  }
}

TEST(RemoteEmbeddingBag, GradientsOf16BitsAreWhatTheyStandFor) {
  const std::vector<float> numbers = {1.0F + 0x1p-11F, 0.1F, -3.3F, 1e-7F, 7, 0.7F};
  for (const row_dtype type : {row_dtype::f16, row_dtype::bf16}) {
    auto narrow = made();
    auto wide = made();
    ASSERT_FALSE(load_weights(*narrow, 0));
    ASSERT_FALSE(load_weights(*wide, 0));
    const auto apply = [](remote_module& module, const msg::tensor& sent) {
      const msg::bag_gradient grad{0, msg::blob::own(std::vector<std::int64_t>{5, 2}), {}, {}, sent};
      EXPECT_FALSE(module.check(grad));
      const msg::bag_gradient* const grads[] = {&grad, &grad};
      EXPECT_FALSE(module.collect(grads, {1, 1}));
      const double norm = module.squared_norm().value();
      module.apply(1, 1);
      EXPECT_FALSE(module.finish());
      return norm;
    };
    const double norm = apply(*narrow, encode_rows(numbers.data(), 2, dim, type));
    EXPECT_EQ(norm, apply(*wide, matrix(rounded(numbers, type))));
    EXPECT_TRUE(narrow->row_digests(0, rows_here)->bytes == wide->row_digests(0, rows_here)->bytes);
    const auto moved = look_up(*narrow, {5});
    for (std::size_t d = 0; d < dim; ++d) EXPECT_EQ(moved[d], -2 * rounded(numbers[d], type));
  }
  auto table = made();
  const msg::bag_gradient doubles{
      0, msg::blob::own(std::vector<std::int64_t>{5}), {}, {}, msg::tensor::own(1, dim, std::vector<double>(dim))};
  EXPECT_EQ(protocol::describe(table->check(doubles)),
            "table 2: gradient [1, 3] of float64, expected [1, 3] of float32, float16 or bfloat16");
}

// Only the number of indices is checked: the indices do not exist.
TEST(RemoteEmbeddingBag, MoreIndicesThanCanBeCountedAreRefused) {
  auto table = made();
  constexpr std::size_t half = std::size_t{1} << 30;
  const std::int64_t none = 0;
  msg::bag_gradient grad;
  grad.indices = msg::blob(nullptr, &none, half * sizeof none);
  const msg::bag_gradient* const grads[] = {&grad, &grad};
  EXPECT_EQ(protocol::describe(table->collect(grads, {1, 2})),
            "table 2: 2147483648 indices in an optimizer step: must be at most 2147483647; use smaller batches "
            "(--batch-size, --accumulate) or fewer trainers");
}

TEST(RemoteEmbeddingBag, RoomForOtherRowsThanAreLookedUpIsRefused) {
  auto table = made();
  const auto refused = [&](msg::bag_lookup wanted, std::uint64_t rows, std::uint64_t cols) {
    wanted.destination = std::make_shared<const device_destination>(device_matrix{nullptr, rows, cols, {}, nullptr});
    const auto begun = table->lookup(wanted, row_dtype::f32);
    return begun ? "" : protocol::describe(begun.error());
  };
  const msg::bag_lookup two_bags{
      0, msg::blob::own(std::vector<std::int64_t>{4, 0, 4}), msg::blob::own(std::vector<std::int64_t>{0, 2}), {}};
  EXPECT_EQ(refused(two_bags, 2, dim), "");
  EXPECT_NE(refused(two_bags, 3, dim).find("table 2: room for [3, 3] pooled rows, expected [2, 3]"), std::string::npos);
  EXPECT_NE(refused(two_bags, 2, 4).find("table 2: room for [2, 4] pooled rows, expected [2, 3]"), std::string::npos);
  msg::bag_lookup rows = two_bags;
  rows.offsets = {};
  EXPECT_NE(refused(rows, 3, dim).find("room for [3, 3] pooled rows, expected [0, 3]"), std::string::npos);
}

TEST(RemoteEmbeddingBag, ArgumentsThatAreWrongOrUnknownAreRefused) {
  EXPECT_EQ(refusal({{"dtype", "f8"}}), "EmbeddingBag: argument dtype=f8 must be one of f32, f16, bf16");
  EXPECT_EQ(refusal({{"lr_schedule", "constant+constant"}}),
            "constant never ends, so nothing can follow it; put it last");
  EXPECT_EQ(refusal({{"lr_shedule", "constant"}}),
            "EmbeddingBag: there is no argument 'lr_shedule'; the nearest is 'lr_schedule'");
  for (const char* init :
       {"", "x", "normal", "normal:", "normal:-1", "normal:nan", "normal:inf", "normal:3.5e37", "uniform:1",
        "uniform:1,", "uniform:1,0", "uniform:nan,1", "uniform:-inf,1", "uniform:0,1,2"})
    EXPECT_EQ(refusal({{"init", init}}), "EmbeddingBag: argument init=" + troupe::printable(init) +
                                             " must be normal:DEVIATION, between 0 and 3.4e+37, or "
                                             "uniform:LEAST,MOST, of numbers that float32 has");
  EXPECT_EQ(refusal({{"embedding_dim", "x"}}), "EmbeddingBag: argument embedding_dim=x is not a number");
  EXPECT_EQ(refusal({{"split", "colums"}}), "EmbeddingBag: argument split=colums must be one of rows, columns");
  EXPECT_EQ(refusal({{"split", "columns"}, {"optimizer", "rowwise-adagrad"}}),
            "EmbeddingBag: argument optimizer=rowwise-adagrad needs whole rows, and split=columns cuts them");
  msg::instantiate narrow = order({{"split", "columns"}});
  narrow.shards = 4;
  const auto made_narrow = make_remote_embedding_bag(narrow, kernels::host_device());
  ASSERT_FALSE(made_narrow);
  EXPECT_EQ(protocol::describe(made_narrow.error()), "EmbeddingBag [6, 3], 4 shards of columns: must be at most 3");
}

}  // namespace
}  // namespace troupe::actors::remote_embedding_bag_test
