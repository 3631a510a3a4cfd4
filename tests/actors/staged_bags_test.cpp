// Goal: a batch whose tables are on a device of this process is in staging memory once prepared, and gives the same
// numbers as one that is not. Method: the same batch, prepared in both ways.

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "actors/common/device_tensor.hpp"
#include "kernels/backend.hpp"
#include "kernels/devices.hpp"
#include "protocol/errors.hpp"
#include "tests/actors/sparse_client_support.hpp"
#include "tests/kernels/needs_device.hpp"

namespace troupe::actors::staged_bags_test {
namespace {

using sparse_client_test::all_modes;
using sparse_client_test::random_batch;

TEST(StagedBags, GiveTheNumbersOfTheirBatch) {
  const model::data_spec spec = all_modes();
  const model::input_layout layout(spec);
  kernels::test::source_of_numbers random(7);
  const auto samples = random_batch(random, spec, 9, true);
  for (const std::uint32_t shards : {1U, 3U}) {
    const spread_tables plain(spec, shards, {});
    const spread_tables staged(spec, shards, {}, kernels::row_dtype::f32, false, &kernels::host_device());
    auto there = plain.client().prepare(1, samples);
    const auto copy = std::make_shared<model::batch>(*samples);
    auto here = staged.client().prepare(1, copy);
    staged.client().free_copied(here, *copy);
    for (std::size_t s = 0; s < shards; ++s) {
      for (std::size_t t = 0; t < spec.tables.size(); ++t) {
        const msg::bag_lookup& asked = here.lookups[s][t];
        const msg::bag_lookup& expected = there.lookups[s][t];
        for (const auto part : {&msg::bag_lookup::indices, &msg::bag_lookup::offsets, &msg::bag_lookup::weights}) {
          EXPECT_EQ(asked.*part, expected.*part) << "table " << t;
          EXPECT_EQ((asked.*part).pinned_memory() != nullptr, !(asked.*part).empty()) << "table " << t;
          EXPECT_EQ((expected.*part).pinned_memory(), nullptr);
        }
      }
    }
    for (std::size_t t = 0; t < spec.tables.size(); ++t)
      EXPECT_EQ(copy->tables[t].indices.empty() && copy->tables[t].offsets.empty(), !here.tables[t].is_pooled_here);
    std::vector<float> got(9 * layout.width);
    std::vector<float> expected(9 * layout.width);
    ASSERT_FALSE(sparse_client_test::pool(staged.client(), here, staged.answer(here), got));
    ASSERT_FALSE(sparse_client_test::pool(plain.client(), there, plain.answer(there), expected));
    EXPECT_EQ(got, expected);
    const auto of_here = sparse_client_test::gradients_of(staged.client(), here, got);
    const auto of_there = sparse_client_test::gradients_of(plain.client(), there, got);
    for (std::size_t s = 0; s < shards; ++s)
      for (std::size_t t = 0; t < spec.tables.size(); ++t)
        EXPECT_EQ(of_here[s][t].grad.bytes, of_there[s][t].grad.bytes) << "table " << t;
  }
}

class StagedBagsGpu : public needs_device {};

TEST_F(StagedBagsGpu, DenseFeaturesComeToTheirColumns) {
  kernels::device& device = kernels::cuda_backend().open(0);
  const auto on = device.make_stream();
  model::data_spec spec;
  spec.tables = {{20, 2, kernels::pooling::sum, false}, {20, 3, kernels::pooling::sum, false}};
  spec.dense_features = 2;
  const model::input_layout layout(spec);
  const std::vector<std::vector<msg::module_ref>> shards = {{{{}, {}, 1, 0, 1, 0}}, {{{}, {}, 2, 0, 1, 0}}};
  const sparse_client client(spec, shards, {.where = &device, .staging = &device});
  constexpr std::size_t size = 3;
  // First with all rows on the device, then with the second table's from the host.
  for (const bool from_host : {false, true}) {
    const auto samples = std::make_shared<model::batch>();
    samples->size = size;
    samples->tables.assign(2, {{1, 2, 3}, {0, 1, 2}, {}});
    samples->dense = {1, 2, 3, 4, 5, 6};
    auto plan = client.prepare(1, samples);
    client.free_copied(plan, *samples);
    EXPECT_TRUE(samples->dense.empty());
    network_input input;
    client.offer(plan, *on, input);
    client.ask(plan, 0, {}, 0);
    msg::rows answer;
    for (std::size_t t = 0; t < 2; ++t) {
      const std::size_t count = size * spec.tables[t].dim;
      std::vector<float> rows(count);
      for (std::size_t i = 0; i < count; ++i) rows[i] = static_cast<float>(100 * (t + 1) + i);
      if (from_host && t == 1) {
        answer.tables.push_back(msg::tensor::own(size, spec.tables[t].dim, std::move(rows)));
        continue;
      }
      kernels::device_array<float> there;
      kernels::assign<float>(*on, rows, there);
      const device_matrix& destination = columns_of(plan.lookups[0][t].destination)->what;
      on->copy_columns(size, spec.tables[t].dim, {there.data(), spec.tables[t].dim}, destination.numbers);
      on->synchronize();
      answer.tables.push_back(on_device(destination, on->record()));
    }
    sparse_client::take(plan, 0, std::move(answer));
    const auto error = client.pool(plan, *on, input);
    ASSERT_FALSE(error) << protocol::describe(error);
    std::vector<float> copy;
    const auto got = kernels::on_host(*on, input.data(), size * layout.width, copy);
    EXPECT_EQ(std::vector<float>(got.begin(), got.end()),
              (std::vector<float>{1,   2,   100, 101, 200, 201, 202, 3,   4,   102, 103,
                                  203, 204, 205, 5,   6,   104, 105, 206, 207, 208}));
  }
}

}  // namespace
}  // namespace troupe::actors::staged_bags_test
