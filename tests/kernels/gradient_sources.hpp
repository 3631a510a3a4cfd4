// Sources of a table's gradient, grouped by a simple method, and tables for them.

#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "kernels/embedding_bag.hpp"
#include "tests/kernels/optimizer_support.hpp"
#include "tests/kernels/row_gradients.hpp"
#include "tests/kernels/support.hpp"

namespace troupe::kernels::test {

/// One source: bags, their gradients, and the pooling.
struct gradient_source {
  pooling mode = pooling::sum;
  bag_batch bags;
  std::vector<float> grad;
  std::size_t stride = 0;
};

/// Four sources with duplicates within and across them; the second is already summed by row, and the last one has only
/// empty bags.
inline std::vector<gradient_source> make_sources(source_of_numbers& random, std::size_t rows, std::size_t dim,
                                                 std::size_t wider) {
  std::vector<gradient_source> sources(4);
  sources[0].bags = make_bags(random, 9, rows, true);
  sources[1].bags.indices = {0, 2, static_cast<std::int64_t>(rows - 1)};
  sources[2].mode = pooling::mean;
  sources[2].bags = make_bags(random, 7, rows / 2 + 1, false);
  sources[3].bags.offsets = {0, 0};
  for (gradient_source& one : sources) {
    one.stride = dim + wider;
    const std::size_t bags = one.bags.offsets.empty() ? one.bags.indices.size() : one.bags.offsets.size();
    one.grad = random.numbers(bags * one.stride);
  }
  return sources;
}

/// Groups the sources for `update_rows` with a simple method.
inline gradients grouped_by_hand(const std::vector<gradient_source>& sources) {
  std::map<std::int64_t, std::vector<occurrence>> by_row;
  gradients all;
  for (std::uint32_t rank = 0; rank < sources.size(); ++rank) {
    const gradient_source& one = sources[rank];
    bag_batch bags = one.bags;
    if (bags.offsets.empty()) {
      for (std::size_t i = 0; i < bags.indices.size(); ++i) bags.offsets.push_back(static_cast<std::int64_t>(i));
    }
    const bags_view view = bags.view();
    for (std::uint32_t bag = 0; bag < view.size(); ++bag) {
      for (std::size_t i = view.begin_of(bag); i < view.end_of(bag); ++i) {
        float scale = view.weights.empty() ? 1.0F : view.weights[i];
        if (one.mode == pooling::mean) scale = 1.0F / static_cast<float>(view.end_of(bag) - view.begin_of(bag));
        by_row[view.indices[i]].push_back({rank, bag, scale});
      }
    }
    all.sources.push_back(one.grad.data());
    all.strides.push_back(one.stride);
  }
  for (const auto& [row, occurrences] : by_row) {
    all.add_row(static_cast<std::size_t>(row));
    all.occurrences.insert(all.occurrences.end(), occurrences.begin(), occurrences.end());
  }
  all.close();
  return all;
}

inline std::vector<optimizer_case> table_optimizers() {
  auto all = optimizer_cases();
  all.push_back({"rowwise_adagrad", optimizer_kind::rowwise_adagrad});
  all.push_back({"rowwise_adagrad_decay", optimizer_kind::rowwise_adagrad, 0.1, 0.02});
  return all;
}

/// A table and its state on the host.
struct host_table {
  row_dtype type;
  std::vector<std::byte> stored;
  std::vector<float> first, second;

  host_table(const optimizer_case& c, row_dtype stored_as, const std::vector<float>& numbers)
      : type(stored_as), stored(numbers.size() * size_of(stored_as)) {
    encode(numbers.size(), numbers.data(), view());
    if (c.kind != optimizer_kind::sgd || c.momentum != 0) first.resize(numbers.size());
    if (c.kind == optimizer_kind::adam) second.resize(numbers.size());
  }

  table_view view() { return {stored.data(), type}; }
  optimizer_state_view state() { return {first.data(), second.data()}; }
};

}  // namespace troupe::kernels::test
