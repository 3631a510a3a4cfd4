// Shared by tests of the sparse client: a model with every mode of pooling, random batches, and the client's calls in
// order.

#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "actors/trainer/sparse_client.hpp"
#include "tests/actors/spread_tables.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::actors::sparse_client_test {

inline constexpr std::size_t ranks = 2;
inline constexpr float untouched = -77;

/// Every mode of pooling; the second table may have fewer rows than shards.
inline model::data_spec all_modes() {
  model::data_spec spec;
  spec.tables = {{23, 5, kernels::pooling::sum, false},
                 {3, 8, kernels::pooling::mean, false},
                 {23, 17, kernels::pooling::max, false},
                 {40, 4, kernels::pooling::sum, true},
                 {11, 33, kernels::pooling::mean, false}};
  spec.dense_features = 3;
  return spec;
}

/// Bags with repeated indices, empty bags, and one table without any index. Only the first `rows_used` rows of each
/// table occur.
inline std::shared_ptr<const model::batch> random_batch(kernels::test::source_of_numbers& random,
                                                        const model::data_spec& spec, std::size_t size,
                                                        bool last_is_empty, std::int64_t rows_used = 1000) {
  auto samples = std::make_shared<model::batch>();
  samples->size = size;
  samples->dense = random.numbers(size * spec.dense_features);
  for (const auto& table : spec.tables) {
    auto made = kernels::test::make_bags(random, size, static_cast<std::size_t>(std::min(table.rows, rows_used)),
                                         table.weighted);
    samples->tables.push_back({std::move(made.indices), std::move(made.offsets), std::move(made.weights)});
  }
  if (last_is_empty) samples->tables.back() = {{}, std::vector<std::int64_t>(size, 0), {}};
  EXPECT_EQ(model::check_batch({spec.tables, 0, 1}, {size, samples->tables, {}, {}, std::vector<float>(size)}),
            std::nullopt);
  return samples;
}

/// Passes in every server's answer; then fills `input` with what the client computes on the processor.
inline caf::error pool(const sparse_client& client, sparse_client::context& plan, std::vector<msg::rows> answers,
                       std::vector<float>& input) {
  for (std::size_t s = 0; s < client.servers(); ++s) {
    const msg::lookup asked = client.ask(plan, s, {}, 0);
    EXPECT_EQ(asked.tables.size(), plan.lookups[s].size());
    EXPECT_TRUE(sparse_client::owes(plan, s));
  }
  EXPECT_EQ(plan.unanswered, client.servers());
  for (std::size_t s = 0; s < answers.size(); ++s) sparse_client::take(plan, s, std::move(answers[s]));
  EXPECT_EQ(plan.unanswered, 0u);
  network_input there;
  there.resize(kernels::host_stream(), plan.samples->size, input.size() / plan.samples->size);
  std::ranges::copy(input, there.data());
  auto error = client.pool(plan, kernels::host_stream(), there);
  std::copy_n(there.data(), input.size(), input.begin());
  return error;
}

inline std::vector<std::vector<msg::bag_gradient>> gradients_of(const sparse_client& client,
                                                                const sparse_client::context& plan,
                                                                const std::vector<float>& grad_input) {
  kernels::mirrored_array<float> there;
  there.resize(kernels::host_stream(), grad_input.size());
  std::ranges::copy(grad_input, there.host());
  return client.gradients(plan, there, nullptr);
}

}  // namespace troupe::actors::sparse_client_test
